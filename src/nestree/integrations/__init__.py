"""nestree where people already are: one module for each library, loaded when it is asked for."""
