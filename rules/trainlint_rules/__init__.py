"""The built-in rules of trainlint, one file a rule, by family."""
