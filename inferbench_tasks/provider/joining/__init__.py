"""How workers of other hosts join the system of ``inferbench up --listen``: certificates, tokens, the gateway."""
