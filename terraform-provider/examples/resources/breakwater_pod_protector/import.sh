# by NAMESPACE/NAME
terraform import breakwater_pod_protector.web shop/web
