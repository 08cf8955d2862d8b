"""Old and wrong manifests: what is the matter with them, since when, and what they are in resource.k8s.io/v1.

Pure: texts and objects in, findings and texts out; no I/O, no clock. Begin with `engine`; nothing is imported here, for
the scheduler reads its configuration with `documents` alone. See docs/manifests.md for what is recognized.
"""
