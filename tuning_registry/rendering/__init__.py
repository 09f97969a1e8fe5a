"""Values as text: tables, JSON, CSV. Returns strings and prints nothing."""
