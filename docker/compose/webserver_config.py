"""Where users log in, for FAB's auth manager; its words: https://flask-appbuilder.readthedocs.io/en/latest/security.html"""

from flask_appbuilder.const import AUTH_DB

# AUTH_LDAP and AUTH_OAUTH (Keycloak and others by OpenID Connect) need the lines that FAB's page shows.
AUTH_TYPE = AUTH_DB
# Who may see a page without a login: nobody.
AUTH_ROLE_PUBLIC = None
# Guesses at the login form; tokens for passwords have InferBench's own limit.
AUTH_RATE_LIMITED = True
AUTH_RATE_LIMIT = "5 per 40 second"
