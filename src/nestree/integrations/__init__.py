"""nestree inside other people's programs; each module needs what it is named after."""
