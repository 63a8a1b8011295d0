"""A training on two hosts: who meets where, what stands on the first host, what each host tells."""
