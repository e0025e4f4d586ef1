{{- /*
A ServiceAccount that exists while a hook runs, with its permissions in the cluster.
  (dict "root" $ "name" "..." "hook" "post-delete" "rules" "...")
*/ -}}
{{- define "breakwater.hookAccount" -}}
{{- $root := .root }}
{{- $annotations := merge (dict "helm.sh/hook-weight" "-10") (include "breakwater.hook" .hook | fromYaml) | toYaml -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "breakwater.labels" $root | nindent 4 }}
  annotations:
    {{- $annotations | nindent 4 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ .name }}
  labels:
    {{- include "breakwater.labels" $root | nindent 4 }}
  annotations:
    {{- $annotations | nindent 4 }}
rules:
{{ .rules }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ .name }}
  labels:
    {{- include "breakwater.labels" $root | nindent 4 }}
  annotations:
    {{- $annotations | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {{ .name }}}
subjects:
- {kind: ServiceAccount, namespace: {{ $root.Release.Namespace }}, name: {{ .name }}}
{{- end }}

{{- define "breakwater.hook" -}}
helm.sh/hook: {{ . }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{- /* The spec of a hook's pod: (dict "root" $ "name" "..." "args" (list ...)). */ -}}
{{- define "breakwater.hookPod" -}}
{{- $root := .root -}}
serviceAccountName: {{ .name }}
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  seccompProfile: {type: RuntimeDefault}
containers:
- name: {{ first .args }}
  image: {{ include "breakwater.image" $root | quote }}
  imagePullPolicy: {{ $root.Values.image.pullPolicy }}
  args: {{ .args | toJson }}
  securityContext:
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities: {drop: [ALL]}
{{- end }}
