"""HTML pages as one file that loads nothing: `document` is the entrance. Standard library only: training jobs use it."""
