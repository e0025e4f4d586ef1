module github.com/hashicorp/nomad/api

go 1.26.0
