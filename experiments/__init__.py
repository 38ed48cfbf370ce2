"""What is measured with the library, and is no part of it."""
