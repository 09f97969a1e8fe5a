"""Recording the choices of a rank to a file or a database."""
