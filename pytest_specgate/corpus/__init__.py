"""Text shipped with the package for making benchmark prompts: `prose.txt` and `code.txt`."""
