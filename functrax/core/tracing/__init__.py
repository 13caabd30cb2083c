"""From functions to programs: primitives, interpreters, tracers, staging."""
