// What tsc does not see in the page's scripts. Names that are not declared are tsc's.
export default [
  {
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      "no-unused-vars": ["error", { ignoreRestSiblings: true }],
      "no-shadow": "error",
      "prefer-const": "error",
      "no-var": "error",
      eqeqeq: "error",
      "no-implicit-globals": "error",
      complexity: ["error", 12],
      "max-lines-per-function": ["error", { max: 60, skipBlankLines: true, skipComments: true }],
    },
  },
];
