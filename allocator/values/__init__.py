"""Claims and devices as values: model, decoded and encoded; and the arithmetic under everything.

features, names, model; json_fields, decode_node_selector, decode, decode_claims, encode; pool_attribute; masks,
journal, meter, remembered.
"""
