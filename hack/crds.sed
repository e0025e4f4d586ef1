# Turns a generated CustomResourceDefinition into one of charts/breakwater/crds, which Helm installs as it is. The chart breakwater-crds adds the same by a template.
s|^  annotations:$|&\
    argocd.argoproj.io/sync-options: ServerSideApply=true,Prune=false\
    argocd.argoproj.io/sync-wave: "-10"\
    helm.sh/resource-policy: keep\
    kustomize.toolkit.fluxcd.io/prune: disabled|
s|^  name: .*\.breakwater\.dev$|  labels:\
    app.kubernetes.io/name: breakwater\
    app.kubernetes.io/part-of: breakwater\
&|
