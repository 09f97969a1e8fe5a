"""A report as one HTML file that loads nothing: `layout.render_page` is the entrance."""
