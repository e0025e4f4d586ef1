{{- /* RBAC rules of the components. Their tests run with them, by package e2e/harness/roles. */ -}}

{{- define "breakwater.rules.generator" -}}
- {apiGroups: [apps], resources: [deployments, statefulsets, replicasets], verbs: [get, list, watch, patch]}
- {apiGroups: [""], resources: [replicationcontrollers], verbs: [get, list, watch, patch]}
- {apiGroups: [""], resources: [namespaces], verbs: [get, list, watch]}
- {apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: [get, list, watch]}
- {apiGroups: [breakwater.dev], resources: [protectionpolicies, clusterprotectionpolicies], verbs: [get, list, watch, patch]}
- {apiGroups: [breakwater.dev], resources: [protectionpolicies/status, clusterprotectionpolicies/status], verbs: [patch]}
- {apiGroups: [breakwater.dev], resources: [podprotectors], verbs: [get, list, watch, create, patch, delete]}
- {apiGroups: [breakwater.dev], resources: [podprotectors/status], verbs: [patch, update]}
- {apiGroups: [events.k8s.io], resources: [events], verbs: [create, get, patch]}
{{- range .Values.generator.sourceKinds }}
- {apiGroups: [{{ .apiGroup | quote }}], resources: [{{ .resource }}], verbs: [get, list, watch, patch]}
- {apiGroups: [{{ .apiGroup | quote }}], resources: [{{ .resource }}/scale], verbs: [get]}
{{- end }}
{{- range .Values.generator.ownerKinds }}
- {apiGroups: [{{ .apiGroup | quote }}], resources: [{{ .resource }}], verbs: [get]}
{{- end }}
{{- end }}

{{- define "breakwater.rules.grants" -}}
- {apiGroups: [""], resources: [configmaps], verbs: [create]}
- {apiGroups: [""], resources: [configmaps], resourceNames: [breakwater-large-decreases], verbs: [get, update]}
{{- end }}

{{- define "breakwater.rules.topology.core" -}}
- {apiGroups: [breakwater.dev], resources: [cells, podprotectors], verbs: [get, list, watch, patch]}
- {apiGroups: [breakwater.dev], resources: [cells/status], verbs: [patch]}
- {apiGroups: [breakwater.dev], resources: [podprotectors/status], verbs: [update]}
- {apiGroups: [events.k8s.io], resources: [events], verbs: [create, patch]}
{{- end }}

{{- define "breakwater.rules.inventory.core" -}}
- {apiGroups: [breakwater.dev], resources: [cells], verbs: [create]}
{{- end }}

{{- define "breakwater.rules.inventory.secrets" -}}
- {apiGroups: [""], resources: [secrets], verbs: [get, create, patch]}
{{- end }}

{{- define "breakwater.rules.inventory.argocd" -}}
- {apiGroups: [""], resources: [secrets], verbs: [list, watch]}
{{- end }}

{{- define "breakwater.rules.inventory.clusterProfiles" -}}
- {apiGroups: [""], resources: [secrets], verbs: [list, watch]}
- {apiGroups: [multicluster.x-k8s.io], resources: [clusterprofiles], verbs: [list, watch]}
{{- end }}

{{- /* Permission to replace kubeconfigs whose tokens are renewed; the argument is the names of the Secrets, if any. */ -}}
{{- define "breakwater.rules.renewal" -}}
- {apiGroups: [""], resources: [secrets], resourceNames: {{ uniq . | toJson }}, verbs: [get, patch]}
{{- end }}

{{- define "breakwater.rules.topology.cell" -}}
- {apiGroups: [""], resources: [namespaces], resourceNames: [kube-system], verbs: [get]}
- {apiGroups: [admissionregistration.k8s.io], resources: [validatingwebhookconfigurations], verbs: [list]}
- {apiGroups: [admissionregistration.k8s.io], resources: [validatingadmissionpolicies, validatingadmissionpolicybindings], verbs: [get]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list]}
{{- end }}

{{- define "breakwater.rules.aggregator.core" -}}
- {apiGroups: [""], resources: [namespaces], resourceNames: [kube-system], verbs: [get]}
- {apiGroups: [breakwater.dev], resources: [cells, podprotectors], verbs: [get, list, watch]}
- {apiGroups: [breakwater.dev], resources: [cells/status, podprotectors/status], verbs: [update]}
- {apiGroups: [events.k8s.io], resources: [events], verbs: [create, patch]}
{{- end }}

{{- define "breakwater.rules.aggregator.shares" -}}
- {apiGroups: [breakwater.dev], resources: [cells], verbs: [get, list, watch, create, update]}
- {apiGroups: [breakwater.dev], resources: [podprotectors], verbs: [get, list, watch, create, update, delete]}
- {apiGroups: [breakwater.dev], resources: [cells/status, podprotectors/status], verbs: [update]}
{{- end }}

{{- define "breakwater.rules.aggregator.cell" -}}
- {apiGroups: [""], resources: [nodes, pods], verbs: [get, list, watch]}
- {apiGroups: [""], resources: [namespaces], verbs: [get, list, watch, patch]}
- {apiGroups: [admissionregistration.k8s.io], resources: [validatingwebhookconfigurations], verbs: [list, watch]}
- {apiGroups: [events.k8s.io], resources: [events], verbs: [create, patch]}
- {apiGroups: [apps], resources: [daemonsets, deployments, replicasets, statefulsets], verbs: [get, list, watch]}
- {apiGroups: [apps], resources: [daemonsets/scale, deployments/scale, replicasets/scale, statefulsets/scale], verbs: [get]}
- {apiGroups: [batch], resources: [cronjobs, jobs], verbs: [get, list, watch]}
- {apiGroups: [batch], resources: [cronjobs/scale, jobs/scale], verbs: [get]}
- {apiGroups: [""], resources: [replicationcontrollers], verbs: [get, list, watch]}
- {apiGroups: [""], resources: [replicationcontrollers/scale], verbs: [get]}
{{- if .Values.aggregator.workloadKinds }}
- {apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: [get]}
{{- end }}
{{- range .Values.aggregator.workloadKinds }}
- {apiGroups: [{{ .apiGroup | quote }}], resources: [{{ .resource }}], verbs: [get, list, watch]}
- {apiGroups: [{{ .apiGroup | quote }}], resources: [{{ .resource }}/scale], verbs: [get]}
{{- end }}
{{- end }}

{{- define "breakwater.rules.webhook.core" -}}
- {apiGroups: [breakwater.dev], resources: [cells, podprotectors], verbs: [get, list, watch]}
- {apiGroups: [breakwater.dev], resources: [podprotectors/status], verbs: [update]}
- {apiGroups: [events.k8s.io], resources: [events], verbs: [create, get, patch]}
{{- if .Values.webhook.scheduling.enabled }}
- {apiGroups: [breakwater.dev], resources: [clusterpodschedulingpolicies, podschedulingpolicies], verbs: [get, list, watch]}
- {apiGroups: [breakwater.dev], resources: [clusterpodschedulingpolicies/status, podschedulingpolicies/status], verbs: [update]}
{{- end }}
{{- end }}

{{- define "breakwater.rules.webhook.cell" -}}
{{- if .Values.webhook.nudge -}}
- {apiGroups: [""], resources: [namespaces], verbs: [get, patch]}
- {apiGroups: [""], resources: [nodes], verbs: [get]}
- {apiGroups: [""], resources: [pods], verbs: [get, list, patch]}
- {apiGroups: [""], resources: [pods/eviction], verbs: [create]}
- {apiGroups: [""], resources: [events], verbs: [create]}
- {apiGroups: [apps], resources: [daemonsets, replicasets, statefulsets], verbs: [get, patch]}
- {apiGroups: [batch], resources: [jobs], verbs: [get, patch]}
- {apiGroups: [""], resources: [replicationcontrollers], verbs: [get, patch]}
- {apiGroups: [resource.k8s.io], resources: [resourceclaims], verbs: [get, patch]}
{{- range .Values.webhook.ownerKinds }}
- {apiGroups: [{{ .apiGroup | quote }}], resources: [{{ .resource }}], verbs: [get, patch]}
- {apiGroups: [{{ .apiGroup | quote }}], resources: [{{ .resource }}/scale], verbs: [get]}
{{- end }}
{{- else -}}
- {apiGroups: [""], resources: [namespaces], resourceNames: [kube-system], verbs: [get]}
- {apiGroups: [""], resources: [nodes], verbs: [get]}
- {apiGroups: [""], resources: [pods], verbs: [get, list]}
{{- if .Values.node.enabled }}
- {apiGroups: [""], resources: [events], verbs: [create]}
{{- end }}
{{- end }}
{{- if .Values.webhook.scheduling.enabled }}
- {apiGroups: [""], resources: [namespaces], verbs: [get, list, watch]}
{{- end }}
{{- end }}

{{- define "breakwater.rules.webhook.roots" -}}
- {apiGroups: [""], resources: [namespaces], verbs: [get]}
{{- if and (include "breakwater.isCore" .) .Values.rootGuard.ownerKinds }}
- {apiGroups: [apps], resources: [deployments, replicasets, statefulsets], verbs: [list]}
- {apiGroups: [""], resources: [replicationcontrollers], verbs: [list]}
{{- range .Values.generator.sourceKinds }}
- {apiGroups: [{{ .apiGroup | quote }}], resources: [{{ .resource }}], verbs: [list]}
{{- end }}
{{- range .Values.rootGuard.ownerKinds }}
- {apiGroups: [{{ .apiGroup | quote }}], resources: [{{ .resource }}], verbs: [get]}
{{- end }}
{{- end }}
{{- end }}

{{- define "breakwater.rules.sharder.cluster" -}}
- {apiGroups: [breakwater.dev], resources: [clusterrings], verbs: [get, list, watch]}
- {apiGroups: [breakwater.dev], resources: [clusterrings/status], verbs: [patch]}
- {apiGroups: [""], resources: [namespaces], verbs: [get, list, watch]}
- {apiGroups: [admissionregistration.k8s.io], resources: [mutatingwebhookconfigurations], verbs: [get, list, watch, create, patch, delete]}
- {apiGroups: [authorization.k8s.io], resources: [selfsubjectaccessreviews], verbs: [create]}
- {apiGroups: [events.k8s.io], resources: [events], verbs: [create, patch]}
{{- end }}

{{- define "breakwater.rules.sharder.shards" -}}
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, list, watch, update, delete]}
{{- end }}

{{- define "breakwater.rules.console" -}}
- {apiGroups: [breakwater.dev], resources: [cells, podprotectors], verbs: [list, watch]}
- {apiGroups: [events.k8s.io], resources: [events], verbs: [list, watch]}
- {apiGroups: [authentication.k8s.io], resources: [tokenreviews], verbs: [create]}
- {apiGroups: [authorization.k8s.io], resources: [subjectaccessreviews], verbs: [create]}
{{- end }}

{{- define "breakwater.rules.certificates.cluster" -}}
{{- $mutating := include "breakwater.schedulingConfigurations" . | fromJsonArray }}
{{- range list (dict "resource" "validatingwebhookconfigurations" "names" (include "breakwater.configurations" . | fromJsonArray))
  (dict "resource" "mutatingwebhookconfigurations" "names" $mutating) }}
{{- if .names }}
- {apiGroups: [admissionregistration.k8s.io], resources: [{{ .resource }}], verbs: [get, list, watch]}
- apiGroups: [admissionregistration.k8s.io]
  resources: [{{ .resource }}]
  resourceNames: {{ toJson .names }}
  verbs: [patch]
{{- end }}
{{- end }}
{{- end }}

{{- define "breakwater.rules.certificates.local" -}}
{{- $secrets := list }}
{{- if include "breakwater.certifies" . }}
{{- if .Values.webhook.enabled }}{{ $secrets = append $secrets (include "breakwater.tlsSecret" .) }}{{ end }}
{{- if .Values.sharder.enabled }}{{ $secrets = append $secrets (include "breakwater.sharderSecret" .) }}{{ end }}
{{- if include "breakwater.consoles" . }}{{ $secrets = append $secrets (include "breakwater.consoleSecret" .) }}{{ end }}
{{- end }}
{{- if include "breakwater.callers" . }}
- {apiGroups: [""], resources: [secrets], resourceNames: [{{ include "breakwater.callerSecret" . }}], verbs: [get, update]}
{{- end }}
{{ range $secrets -}}
- {apiGroups: [""], resources: [secrets], resourceNames: [{{ . }}], verbs: [list, watch]}
- {apiGroups: [""], resources: [secrets], resourceNames: [{{ . }}, {{ . }}-ca], verbs: [get, update]}
{{ end }}
{{- include "breakwater.rules.election" . }}
{{- end }}

{{- define "breakwater.rules.leases" -}}
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [create, get, update]}
{{- end }}

{{- define "breakwater.rules.ring" -}}
- {apiGroups: [breakwater.dev], resources: [clusterrings], verbs: [get, list, watch]}
{{- end }}

{{- define "breakwater.rules.share" -}}
{{ include "breakwater.rules.ring" . }}
- {apiGroups: [breakwater.dev], resources: [clusterrings/status], verbs: [update]}
{{- end }}

{{- define "breakwater.rules.shard" -}}
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [create, delete, get, list, update, watch]}
{{- end }}

{{- define "breakwater.rules.election" -}}
- {apiGroups: [""], resources: [namespaces], verbs: [get]}
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [create, get, update]}
- {apiGroups: [""], resources: [events], verbs: [create, patch]}
{{- end }}

{{- define "breakwater.rules.trigger" -}}
- {apiGroups: [""], resources: [pods], verbs: [create]}
- {apiGroups: [""], resources: [pods/status], verbs: [patch]}
{{- end }}

{{- define "breakwater.rules.guards" -}}
- {apiGroups: [""], resources: [configmaps], verbs: [create, list, update]}
{{- end }}

{{- define "breakwater.rules.node" -}}
- {apiGroups: [""], resources: [pods], verbs: [get, create, patch, delete]}
- {apiGroups: [""], resources: [events], verbs: [get]}
- {apiGroups: [apps], resources: [daemonsets, replicasets, statefulsets], verbs: [get]}
- {apiGroups: [batch], resources: [jobs], verbs: [get]}
- {apiGroups: [""], resources: [nodes], verbs: [patch]}
{{- end }}

{{- define "breakwater.rules.node.local" -}}
- {apiGroups: [""], resources: [configmaps], verbs: [list]}
- {apiGroups: [""], resources: [serviceaccounts/token], resourceNames: [{{ include "breakwater.fullname" . }}-node], verbs: [create]}
{{- end }}

{{- define "breakwater.rules.uninstall" -}}
- {apiGroups: [breakwater.dev], resources: [cells, podprotectors, protectionpolicies, clusterprotectionpolicies], verbs: [get, list, patch]}
- {apiGroups: [apps], resources: [deployments, statefulsets, replicasets], verbs: [get, list, patch]}
- {apiGroups: [""], resources: [replicationcontrollers], verbs: [get, list, patch]}
{{- range .Values.generator.sourceKinds }}
- {apiGroups: [{{ .apiGroup | quote }}], resources: [{{ .resource }}], verbs: [get, list, patch]}
{{- end }}
{{- if include "breakwater.isWorker" . }}
- {apiGroups: [admissionregistration.k8s.io], resources: [validatingwebhookconfigurations, mutatingwebhookconfigurations], verbs: [list, delete]}
- {apiGroups: [""], resources: [services], verbs: [get]}
{{- end }}
{{- end }}

{{- define "breakwater.rules.test" -}}
{{- with include "breakwater.configurations" . | fromJsonArray -}}
- apiGroups: [admissionregistration.k8s.io]
  resources: [validatingwebhookconfigurations]
  resourceNames: {{ toJson . }}
  verbs: [get]
{{- end }}
{{- with include "breakwater.schedulingConfigurations" . | fromJsonArray }}
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingwebhookconfigurations]
  resourceNames: {{ toJson . }}
  verbs: [get]
{{- end }}
{{- if include "breakwater.isCore" . }}
- {apiGroups: [breakwater.dev], resources: [cells], verbs: [list]}
{{- end }}
{{- if .Values.sharder.enabled }}
- {apiGroups: [breakwater.dev], resources: [clusterrings], verbs: [list]}
- {apiGroups: [admissionregistration.k8s.io], resources: [mutatingwebhookconfigurations], verbs: [list]}
{{- end }}
{{- end }}

{{- /*
A ServiceAccount with its permissions, in the cluster and in the namespace of the release.
  (dict "root" $ "component" "webhook" "name" "..." "annotations" dict "cluster" "rules" "local" "rules")
The ServiceAccount has the name of the roles, or "accountName".
*/ -}}
{{- define "breakwater.account" -}}
{{- $root := .root }}
{{- $labels := printf "%s\napp.kubernetes.io/component: %s" (include "breakwater.labels" $root) .component }}
{{- $account := .accountName | default .name -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $account }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- $labels | nindent 4 }}
  {{- with .annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- with .cluster }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $.name }}
  labels:
    {{- $labels | nindent 4 }}
rules:
{{ . }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $.name }}
  labels:
    {{- $labels | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {{ $.name }}}
subjects:
- {kind: ServiceAccount, namespace: {{ $root.Release.Namespace }}, name: {{ $account }}}
{{- end }}
{{- with .local }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $.name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- $labels | nindent 4 }}
rules:
{{ . }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $.name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- $labels | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: {{ $.name }}}
subjects:
- {kind: ServiceAccount, namespace: {{ $root.Release.Namespace }}, name: {{ $account }}}
{{- end }}
{{- end }}
