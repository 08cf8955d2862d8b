// For `node --import`: the page's scripts find packages where its import map has them, and there is an address.
import { readFileSync } from "node:fs";
import { register } from "node:module";

const root = new URL("../../../scheduler/ui/static/", import.meta.url).href;
const page = readFileSync(new URL("index.html", root), "utf8");
const [, map] = /<script type="importmap">(.*?)<\/script>/s.exec(page);
const hooks = `
const { imports } = ${map};
export async function resolve(name, context, next) {
  const found = await next(name in imports ? new URL("." + imports[name], ${JSON.stringify(root)}).href : name, context);
  return found.url.startsWith(${JSON.stringify(root)}) ? { ...found, format: "module" } : found;
}`;
register(`data:text/javascript,${encodeURIComponent(hooks)}`);
globalThis.location = new URL("http://page.example/");
globalThis.addEventListener = () => {};
globalThis.sessionStorage = { getItem: () => null, setItem: () => {} };
