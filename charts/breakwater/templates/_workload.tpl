{{- /*
The Deployment of a component, and its PodDisruptionBudget.
  (dict "root" $ "component" "webhook" "name" "breakwater-webhook" "args" (list ...) "cores" true "tls" true ...)
  component is the key of its values, which several Deployments may share; part distinguishes those, or as names another component in
  labels and arguments. account is the key of another ServiceAccount. cores mounts the kubeconfigs of other cores, tls the webhook's certificate, or that of tlsSecret, with its
  authorities if authorities says so. recreate stops the old pod before the new one starts, fsGroup owns its volumes. ports, env, volumes, mounts: in addition, as lists.
*/ -}}
{{- define "breakwater.workload" -}}
{{- $root := .root }}
{{- $values := index $root.Values .component }}
{{- $component := .as | default .component }}
{{- $labels := include "breakwater.selectorLabels" (list $root $component) | fromYaml }}
{{- if .part }}{{ $_ := set $labels "breakwater.dev/part" .part }}{{ end -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "breakwater.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ $component }}
spec:
  replicas: {{ $values.replicas }}
  revisionHistoryLimit: 3
  selector:
    matchLabels:
      {{- toYaml $labels | nindent 6 }}
  strategy:
    {{- if .recreate }}
    type: Recreate
    {{- else }}
    rollingUpdate: {maxSurge: 1, maxUnavailable: 0}
    {{- end }}
  template:
    metadata:
      labels:
        {{- toYaml $labels | nindent 8 }}
        app.kubernetes.io/part-of: breakwater
        {{- with $values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      annotations:
        kubectl.kubernetes.io/default-container: {{ $component }}
        {{- with merge (dict) $values.podAnnotations $root.Values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      serviceAccountName: {{ include "breakwater.serviceAccount" (list $root (.account | default .component)) }}
      {{- with $root.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $root.Values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- if .hostNetwork }}
      hostNetwork: true
      dnsPolicy: ClusterFirstWithHostNet
      {{- end }}
      terminationGracePeriodSeconds: {{ .grace | default 30 }}
      securityContext:
        runAsNonRoot: true
        seccompProfile: {type: RuntimeDefault}
        {{- with .fsGroup }}
        fsGroup: {{ int . }}
        {{- end }}
      containers:
      - name: {{ $component }}
        image: {{ include "breakwater.image" $root | quote }}
        imagePullPolicy: {{ $root.Values.image.pullPolicy }}
        args:
        {{- $args := append .args (printf "--log-level=%s" $values.logLevel) }}
        {{- if $root.Values.metrics.authenticate }}{{ $args = append $args "--metrics-auth=in-cluster" }}{{ end }}
        {{- $env := .env | default list }}
        {{- if and $root.Values.tracing.endpoint (has $component (list "webhook" "aggregator" "generator")) }}
        {{- with $root.Values.tracing }}
        {{- $args = concat $args (list (printf "--trace-endpoint=%s" .endpoint) (printf "--trace-protocol=%s" .protocol) (printf "--trace-sampling=%v" .sampling)) }}
        {{- $env = concat $env .env }}
        {{- end }}
        {{- end }}
        {{- range concat $args $values.extraArgs }}
        - {{ . | quote }}
        {{- end }}
        {{- with concat $env $values.extraEnv }}
        env:
          {{- toYaml . | nindent 10 }}
        {{- end }}
        ports:
        {{- range .ports }}
        - {{ toJson . }}
        {{- end }}
        - {name: metrics, containerPort: 8080, protocol: TCP}
        - {name: health, containerPort: 8081, protocol: TCP}
        livenessProbe:
          httpGet: {path: /healthz, port: health}
          periodSeconds: 10
          timeoutSeconds: 5
          failureThreshold: 6
        readinessProbe:
          httpGet: {path: /readyz, port: health}
          periodSeconds: 2
          timeoutSeconds: 2
        {{- with $values.resources }}
        resources:
          {{- toYaml . | nindent 10 }}
        {{- end }}
        securityContext:
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities: {drop: [ALL]}
        {{- $mounts := .mounts | default list }}
        {{- $volumes := .volumes | default list }}
        {{- if .tls }}
        {{- $mounts = append $mounts (dict "name" "tls" "mountPath" "/etc/breakwater/tls" "readOnly" true) }}
        {{- $items := list (dict "key" "tls.crt" "path" "tls.crt") (dict "key" "tls.key" "path" "tls.key") }}
        {{- if .authorities }}{{ $items = append $items (dict "key" "ca.crt" "path" "ca.crt") }}{{ end }}
        {{- $volumes = append $volumes (dict "name" "tls" "secret" (dict
  "secretName" (.tlsSecret | default (include "breakwater.tlsSecret" $root)) "items" $items)) }}
        {{- end }}
        {{- range .cores }}
        {{- $mounts = append $mounts (dict "name" (printf "core-%s" .name) "mountPath" (printf "/etc/breakwater/cores/%s" .name) "readOnly" true) }}
        {{- $volumes = append $volumes (dict "name" (printf "core-%s" .name) "secret" (dict "secretName" (include "breakwater.coreSecret" (list . "name")))) }}
        {{- end }}
        {{- with concat $mounts $values.extraVolumeMounts }}
        volumeMounts:
          {{- toYaml . | nindent 10 }}
        {{- end }}
      {{- with concat $volumes $values.extraVolumes }}
      volumes:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      topologySpreadConstraints:
      {{- if $values.topologySpreadConstraints }}
        {{- toYaml $values.topologySpreadConstraints | nindent 8 }}
      {{- else }}
      {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
      - topologyKey: {{ . }}
        maxSkew: 1
        whenUnsatisfiable: ScheduleAnyway
        matchLabelKeys: [pod-template-hash]
        labelSelector:
          matchLabels:
            {{- toYaml $labels | nindent 12 }}
      {{- end }}
      {{- end }}
{{- if $values.podDisruptionBudget.enabled }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "breakwater.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ $component }}
spec:
  maxUnavailable: {{ $values.podDisruptionBudget.maxUnavailable }}
  # Unhealthy pods may always be evicted.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- toYaml $labels | nindent 6 }}
{{- end }}
{{- end }}
