"""From text to syntax tree: lexer, parser, macros, and the errors of cel-go's ANTLR parser."""
