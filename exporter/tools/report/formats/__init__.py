"""A document in each format: `render(document, …) -> text`."""
