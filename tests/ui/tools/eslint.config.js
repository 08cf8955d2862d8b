import js from "@eslint/js";

export default [
  js.configs.recommended,
  {
    languageOptions: {
      ecmaVersion: 2023,
      sourceType: "module",
      globals: Object.fromEntries(
        ["globalThis", "fetch", "setTimeout", "AbortController", "ResizeObserver", "TextDecoder", "URLSearchParams", "FormData"].map(
          (name) => [name, "readonly"],
        ),
      ),
    },
    rules: {
      "no-console": "error",
      "no-eval": "error",
      "no-implied-eval": "error",
      "no-var": "error",
      "prefer-const": "error",
      eqeqeq: ["error", "always", { null: "ignore" }],
      "no-restricted-properties": ["error", ...["innerHTML", "outerHTML", "insertAdjacentHTML"].map((property) => ({ property }))],
    },
  },
];
