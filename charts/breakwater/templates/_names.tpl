{{- define "breakwater.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- /* The prefix of all names, short enough for the suffixes. */ -}}
{{- define "breakwater.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- $name := include "breakwater.name" . }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "breakwater.isCore" -}}
{{- if ne .Values.role "worker" }}true{{ end }}
{{- end }}

{{- define "breakwater.isWorker" -}}
{{- if ne .Values.role "core" }}true{{ end }}
{{- end }}

{{- /* Whether this cluster is the cell local because the values name no cell: a single cluster that knows no other. */ -}}
{{- define "breakwater.defaultsCell" -}}
{{- if and (eq .Values.role "single") (not (or .Values.cells .Values.remoteCells .Values.cores)) }}true{{ end }}
{{- end }}

{{- /* The cells of this cluster, as a list in JSON. */ -}}
{{- define "breakwater.cells" -}}
{{- if include "breakwater.defaultsCell" . }}{{ list (dict "name" "local") | toJson }}{{ else }}{{ .Values.cells | toJson }}{{ end }}
{{- end }}

{{- /* Labels of all objects. */ -}}
{{- define "breakwater.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: {{ include "breakwater.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: breakwater
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* Selector labels of the pods of a component: (list $ "webhook"). */ -}}
{{- define "breakwater.selectorLabels" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "breakwater.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "breakwater.image" -}}
{{- $repository := .Values.image.repository }}
{{- with .Values.global.imageRegistry }}
{{- $repository = printf "%s/%s" (trimSuffix "/" .) (regexReplaceAll "^([^/]+[.:][^/]*|localhost)/" $repository "") }}
{{- end }}
{{- with .Values.image -}}
{{- if .digest }}{{ $repository }}@{{ .digest }}{{ else }}{{ $repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{- /* The ServiceAccount of a component: (list $ "webhook"). All aggregators share one, except those that count for shares: (list $ "shares"). */ -}}
{{- define "breakwater.serviceAccount" -}}
{{- $root := index . 0 }}{{ $component := index . 1 }}
{{- $account := (index $root.Values $component).serviceAccount }}
{{- $account.name | default (printf "%s-%s" (include "breakwater.fullname" $root) $component) }}
{{- end }}

{{- define "breakwater.tlsSecret" -}}
{{- .Values.tls.secretName | default (printf "%s-webhook-tls" (include "breakwater.fullname" .)) }}
{{- end }}

{{- define "breakwater.sharderSecret" -}}
{{- .Values.sharder.tlsSecretName | default (printf "%s-sharder-tls" (include "breakwater.fullname" .)) }}
{{- end }}

{{- define "breakwater.consoleSecret" -}}
{{- .Values.console.tlsSecretName | default (printf "%s-console-tls" (include "breakwater.fullname" .)) }}
{{- end }}

{{- /* Whether the console runs, which needs the protectors of a core. */ -}}
{{- define "breakwater.consoles" -}}
{{- if and .Values.console.enabled (include "breakwater.isCore" .) }}true{{ end }}
{{- end }}

{{- define "breakwater.aggregates" -}}
{{- if kindIs "invalid" .Values.aggregator.enabled }}{{ include "breakwater.isCore" . }}
{{- else if .Values.aggregator.enabled }}true{{ end }}
{{- end }}

{{- /* Whether the cells of this cluster have shares, in the same cluster. */ -}}
{{- define "breakwater.shares" -}}
{{- if and .Values.shares.enabled (eq .Values.role "worker") }}true{{ end }}
{{- end }}

{{- /* Whether the component certificates runs. */ -}}
{{- define "breakwater.certifies" -}}
{{- if and (or .Values.webhook.enabled .Values.sharder.enabled (include "breakwater.consoles" .)) (eq .Values.tls.mode "self-signed") }}true{{ end }}
{{- end }}

{{- /* Whether the webhook in this cluster uses caller tokens, in the mode Permissive or Required. */ -}}
{{- define "breakwater.callers" -}}
{{- if and .Values.webhook.enabled (ne .Values.webhook.callerTokens.mode "Off") }}true{{ end }}
{{- end }}

{{- /* The Secret with the signing keys of caller tokens. */ -}}
{{- define "breakwater.callerSecret" -}}
{{- include "breakwater.fullname" . }}-webhook-callers
{{- end }}

{{- /* Whether the component certificates puts tokens into webhook configurations: it cannot where they have a URL. */ -}}
{{- define "breakwater.injectsCallers" -}}
{{- if and (include "breakwater.callers" .) (eq .Values.webhook.callerTokens.mode "Required") (not .Values.webhook.url) }}true{{ end }}
{{- end }}

{{- /* The scope of a caller token, derived from a path. */ -}}
{{- define "breakwater.callerScope" -}}
{{- if hasPrefix "/roots/" . }}{{ trimPrefix "/roots/" . }}{{ else }}{{ . | trimPrefix "/" | trimSuffix "/validate" | trimSuffix "/schedule" }}{{ end }}
{{- end }}

{{- /* The host names of the webhook's certificate, as a list in JSON. */ -}}
{{- define "breakwater.dnsNames" -}}
{{- $service := printf "%s-webhook" (include "breakwater.fullname" .) }}
{{- $names := list (printf "%s.%s.svc" $service .Release.Namespace) (printf "%s.%s.svc.cluster.local" $service .Release.Namespace) }}
{{- concat $names .Values.tls.dnsNames | uniq | toJson }}
{{- end }}

{{- /* The host names of the sharder's certificate, as a list in JSON. */ -}}
{{- define "breakwater.sharderNames" -}}
{{- $service := printf "%s-sharder.%s.svc" (include "breakwater.fullname" .) .Release.Namespace }}
{{- list $service (printf "%s.cluster.local" $service) | toJson }}
{{- end }}

{{- /* The host names of the console's certificate, as a list in JSON. */ -}}
{{- define "breakwater.consoleNames" -}}
{{- $service := printf "%s-console.%s.svc" (include "breakwater.fullname" .) .Release.Namespace }}
{{- concat (list $service (printf "%s.cluster.local" $service)) .Values.console.dnsNames | uniq | toJson }}
{{- end }}

{{- /* Namespaces in which shards of rings run, as a list in JSON. */ -}}
{{- define "breakwater.shardNamespaces" -}}
{{- prepend .Values.sharder.shardNamespaces .Release.Namespace | uniq | toJson }}
{{- end }}

{{- /* Names of the ValidatingWebhookConfigurations, as a list in JSON. */ -}}
{{- define "breakwater.configurations" -}}
{{- $names := list }}
{{- if and (include "breakwater.isCore" .) (or .Values.webhook.enabled .Values.webhook.url) }}{{ $names = append $names (printf "%s-core" (include "breakwater.fullname" .)) }}{{ end }}
{{- if include "breakwater.isWorker" . }}
{{- range include "breakwater.cells" . | fromJsonArray }}{{ $names = append $names (printf "%s-cell-%s" (include "breakwater.fullname" $) .name) }}{{ end }}
{{- end }}
{{- if include "breakwater.guardsRoots" . }}{{ $names = append $names (printf "%s-roots" (include "breakwater.fullname" .)) }}{{ end }}
{{- $names | toJson }}
{{- end }}

{{- /* Whether API servers call a webhook for deletions of objects that floors depend on. */ -}}
{{- define "breakwater.guardsRoots" -}}
{{- if and (ne .Values.rootGuard.mode "Off") (or .Values.webhook.enabled .Values.webhook.url) }}true{{ end }}
{{- end }}

{{- /* The path of that webhook, which encodes the role of this cluster. A worker with shares is the core of these shares. */ -}}
{{- define "breakwater.rootsPath" -}}
/roots
{{- if include "breakwater.isCore" . }}/cores/{{ .Values.core.name }}{{ else if include "breakwater.shares" . }}/cores/shares{{ end }}
{{- if include "breakwater.isWorker" . }}/cells{{ range include "breakwater.cells" . | fromJsonArray }}/{{ .name }}{{ end }}{{ end }}
{{- end }}

{{- /* Names of the MutatingWebhookConfigurations for scheduling policies, as a list in JSON. */ -}}
{{- define "breakwater.schedulingConfigurations" -}}
{{- $names := list }}
{{- if and (include "breakwater.isWorker" .) .Values.webhook.scheduling.enabled }}
{{- range include "breakwater.cells" . | fromJsonArray }}{{ $names = append $names (printf "%s-scheduling-%s" (include "breakwater.fullname" $) .name) }}{{ end }}
{{- end }}
{{- $names | toJson }}
{{- end }}

{{- /* Annotations of a webhook configuration: (list $ path). Argo CD applies it last, and prunes it first. */ -}}
{{- define "breakwater.configurationAnnotations" -}}
{{- $path := index . 1 -}}
{{- with index . 0 -}}
argocd.argoproj.io/sync-wave: "10"
{{- if include "breakwater.callers" . }}
breakwater.dev/caller-path: {{ $path }}
{{- end }}
{{- if and .Values.webhook.enabled (eq .Values.tls.mode "cert-manager") (not .Values.webhook.caBundle) }}
cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/{{ include "breakwater.fullname" . }}-webhook
{{- end }}
{{- end }}
{{- end }}

{{- /* The clientConfig of a webhook: (list $ path). It omits the caBundle, and a path with a token, if a component injects them. */ -}}
{{- define "breakwater.clientConfig" -}}
{{- $root := index . 0 }}{{ $path := index . 1 -}}
{{- with $root.Values.webhook }}
{{- if .url }}
{{- $token := get .callerTokens.given (include "breakwater.callerScope" $path) }}
url: {{ printf "%s%s%s" (trimSuffix "/" .url) (empty $token | ternary "" (printf "/callers/%s" $token)) $path | quote }}
{{- else }}
service:
  namespace: {{ $root.Release.Namespace }}
  name: {{ include "breakwater.fullname" $root }}-webhook
  port: {{ .service.port }}
  {{- if not (include "breakwater.injectsCallers" $root) }}
  path: {{ $path }}
  {{- end }}
{{- end }}
{{- with .caBundle }}
caBundle: {{ b64enc . }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The namespaces of a cell that are not exempt: (list $ cell). */ -}}
{{- define "breakwater.namespaceSelector" -}}
{{- $root := index . 0 }}{{ $cell := index . 1 -}}
matchExpressions:
- key: kubernetes.io/metadata.name
  operator: NotIn
  values: {{ append $root.Values.webhook.exemptNamespaces $root.Release.Namespace | uniq | toJson }}
- {key: breakwater.dev/exempt, operator: NotIn, values: ["true"]}
{{- with $cell.namespaces }}
- {key: kubernetes.io/metadata.name, operator: In, values: {{ toJson . }}}
{{- end }}
{{- with $root.Values.webhook.onlyNamespaces }}
- {key: kubernetes.io/metadata.name, operator: In, values: {{ toJson . }}}
{{- end }}
{{- end }}

{{- /*
The scope of removals in a cell: (list $ name), with the name of its ValidatingWebhookConfiguration. Where Helm cannot read the cluster, as in `helm template`
and Argo CD, it is All: an older version may not have labeled the namespaces yet. An installation without the label keeps its scope.
*/ -}}
{{- define "breakwater.removalScope" -}}
{{- $version := "admissionregistration.k8s.io/v1" }}{{ $kind := "ValidatingWebhookConfiguration" -}}
{{- $scope := (index . 0).Values.webhook.scope | default (lookup $version $kind "" "" | empty | ternary "All" "Protected") -}}
{{- if not (index . 0).Values.webhook.scope }}
{{- with lookup $version $kind "" (index . 1) }}
{{- if not (contains (quote "breakwater.dev/protected") (toJson .webhooks)) }}{{ $scope = "All" }}{{ end }}
{{- end }}
{{- end }}
{{- $scope }}
{{- end }}

{{- /* The users of aggregators in this cluster, as a list of CEL strings. */ -}}
{{- define "breakwater.aggregatorUsers" -}}
{{- $prefix := printf "system:serviceaccount:%s:" .Release.Namespace }}
{{- $users := list (print $prefix (include "breakwater.serviceAccount" (list . "aggregator"))) }}
{{- if include "breakwater.shares" . }}{{ $users = append $users (print $prefix (include "breakwater.serviceAccount" (list . "shares"))) }}{{ end }}
{{- if .Values.access.enabled }}{{ $users = append $users (printf "%s%s-access" $prefix (include "breakwater.fullname" .)) }}{{ end }}
{{- printf "'%s'" (concat $users .Values.webhook.aggregatorUsers | uniq | join "', '") }}
{{- end }}

{{- /* Common fields of the webhooks for scheduling policies: (list $ cell). */ -}}
{{- define "breakwater.schedulingReview" -}}
{{- with (index . 0).Values.webhook.scheduling -}}
failurePolicy: {{ .failurePolicy }}
matchPolicy: Equivalent
# Another webhook may change a pod after this one, so run this one again.
reinvocationPolicy: IfNeeded
sideEffects: NoneOnDryRun
timeoutSeconds: {{ .timeoutSeconds }}
{{- end }}
admissionReviewVersions: [v1]
namespaceSelector:
  {{- include "breakwater.namespaceSelector" . | nindent 2 }}
{{- end }}

{{- /* The Secret of another core's kubeconfig: (list core "name"|"key"). */ -}}
{{- define "breakwater.coreSecret" -}}
{{- $secret := (index . 0).kubeconfigSecret | default dict }}
{{- if eq (index . 1) "name" }}{{ $secret.name | default (printf "core-%s" (index . 0).name) }}
{{- else }}{{ $secret.key | default "kubeconfig" }}{{ end }}
{{- end }}

{{- /* Environment variable with the name of the pod. */ -}}
{{- define "breakwater.podName" -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
{{- end }}

{{- /* Whether Cells may refer to kubeconfigs in Secrets of this core. */ -}}
{{- define "breakwater.readsCellSecrets" -}}
{{- if and (include "breakwater.isCore" .) (or .Values.remoteCells .Values.anyCellSecret (include "breakwater.inventories" .)) }}true{{ end }}
{{- end }}

{{- /* Whether Cells come from an inventory, and the namespace of their kubeconfigs. */ -}}
{{- define "breakwater.inventories" -}}
{{- if or .Values.inventory.argocd.enabled .Values.inventory.clusterProfiles.enabled }}true{{ end }}
{{- end }}
{{- define "breakwater.inventorySecrets" -}}
{{- .Values.inventory.secretNamespace | default .Release.Namespace }}
{{- end }}

{{- /* The ClusterRing whose shards are the replicas of a component: root, its name, the component. It has no resources, because the shards divide namespaces. */ -}}
{{- define "breakwater.ring" -}}
{{- $root := index . 0 -}}
{{- $name := index . 1 -}}
{{- if gt (len $name) 57 }}
{{- fail (printf "%s.sharded: the ring %s would have a name of more than 57 characters: set a shorter fullnameOverride, or name of the cell" (index . 2) $name) }}
{{- end -}}
apiVersion: breakwater.dev/v1alpha1
kind: ClusterRing
metadata:
  name: {{ $name }}
  labels:
    {{- include "breakwater.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ index . 2 }}
  annotations:
    argocd.argoproj.io/sync-wave: "-1"
    argocd.argoproj.io/sync-options: SkipDryRunOnMissingResource=true
spec:
  shardNamespace: {{ $root.Release.Namespace }}
{{- end }}
