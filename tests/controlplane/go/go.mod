// The module's name alone. What it is built with stands in kubernetes-MINOR.mod (tests/controlplane/build.py, VERSIONS).
module dra-scheduler/tests/controlplane

go 1.26.0
