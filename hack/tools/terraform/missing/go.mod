module github.com/breakwater-k8s/breakwater/hack/tools/terraform/missing

go 1.26.0
