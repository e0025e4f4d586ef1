{{- /* Checks that the schema cannot express. */ -}}
{{- define "breakwater.checks" -}}
{{- $worker := include "breakwater.isWorker" . }}
{{- $core := include "breakwater.isCore" . }}
{{- if include "breakwater.defaultsCell" . }}
{{- include "breakwater.checkDefaultCell" . }}
{{- else if and $worker (not .Values.cells) }}
{{- fail (printf "cells: set the name of this cluster's cell (role %s), as in: cells: [{name: worker-1}]" .Values.role) }}
{{- end }}
{{- if and (not $worker) .Values.cells }}
{{- fail "cells: a cluster in the role core runs no pods of a cell. Name Cells of other clusters in remoteCells, or set the role single" }}
{{- end }}
{{- if and (not $core) .Values.remoteCells }}
{{- fail "remoteCells: a cluster in the role worker has no Cells. Name them in the core" }}
{{- end }}
{{- if and (not $core) (not .Values.cores) (or .Values.webhook.enabled (include "breakwater.aggregates" .)) }}
{{- fail "cores: name the core clusters that the components in this worker work for, as in: cores: [{name: core}]; or run none here (webhook.enabled=false and aggregator.enabled=false)" }}
{{- end }}
{{- if and $worker (not .Values.webhook.enabled) (not .Values.webhook.url) }}
{{- fail "webhook.url: set the URL at which the API server reaches the webhook, since none runs in this cluster (webhook.enabled=false)" }}
{{- end }}
{{- if and (not .Values.webhook.enabled) .Values.webhook.url (not .Values.webhook.caBundle) }}
{{- fail "webhook.caBundle: set the CA of the webhook at webhook.url; no component in this cluster can inject it" }}
{{- end }}
{{- if and .Values.webhook.enabled (eq .Values.tls.mode "secret") (not .Values.webhook.caBundle) }}
{{- fail "webhook.caBundle: set the CA that signed your certificate (tls.mode=secret); no component injects it" }}
{{- end }}
{{- with .Values.metrics }}
{{- if and .podMonitor.enabled .serviceMonitor.enabled }}
{{- fail "metrics.podMonitor: Prometheus would scrape each pod twice. Enable only one of metrics.podMonitor and metrics.serviceMonitor" }}
{{- end }}
{{- if and .podMonitor.enabled .authenticate (not .podMonitor.tokenSecret) }}
{{- fail "metrics.podMonitor.tokenSecret: set the Secret with the token of a client that may read metrics ({name, key}), or metrics.authenticate=false" }}
{{- end }}
{{- end }}
{{- if and (ne .Values.webhook.callerTokens.mode "Off") (not .Values.webhook.enabled) }}
{{- fail "webhook.callerTokens.mode: no webhook runs in this cluster. Set it in the cluster of the webhook, and set its tokens here in webhook.callerTokens.given" }}
{{- end }}
{{- if and (ne .Values.webhook.callerTokens.mode "Off") .Values.webhook.clientCASecret }}
{{- fail "webhook.callerTokens.mode: client certificates (webhook.clientCASecret) authenticate every caller already. Set only one of the two" }}
{{- end }}
{{- if and (eq .Values.tls.mode "secret") .Values.webhook.enabled (not .Values.tls.secretName) }}
{{- fail "tls.secretName: name the Secret with your certificate (tls.mode=secret)" }}
{{- end }}
{{- if and (eq .Values.tls.mode "secret") .Values.sharder.enabled (not .Values.sharder.tlsSecretName) }}
{{- fail "sharder.tlsSecretName: name the Secret with the sharder's certificate and the CA that signed it (tls.mode=secret)" }}
{{- end }}
{{- if and .Values.console.enabled (not $core) }}
{{- fail "console.enabled: a cluster in the role worker has no protectors to show. Run the console in the core" }}
{{- end }}
{{- if and .Values.console.enabled .Values.console.history.persistence.enabled (ne (int .Values.console.replicas) 1) }}
{{- fail "console.history.persistence.enabled: only one replica can use the volume. Set console.replicas=1" }}
{{- end }}
{{- if and (eq .Values.tls.mode "secret") .Values.console.enabled (not .Values.console.tlsSecretName) }}
{{- fail "console.tlsSecretName: name the Secret with the console's certificate (tls.mode=secret)" }}
{{- end }}
{{- $hasWebhookSecret := and .Values.webhook.enabled (eq (include "breakwater.consoleSecret" .) (include "breakwater.tlsSecret" .)) }}
{{- $hasSharderSecret := and .Values.sharder.enabled (eq (include "breakwater.consoleSecret" .) (include "breakwater.sharderSecret" .)) }}
{{- if and .Values.console.enabled (or $hasWebhookSecret $hasSharderSecret) }}
{{- fail "console.tlsSecretName: the console must not share a Secret with the webhook or the sharder: replicas of the webhook trust any server that has its certificate" }}
{{- end }}
{{- if and .Values.sharder.enabled .Values.webhook.enabled (eq (include "breakwater.sharderSecret" .) (include "breakwater.tlsSecret" .)) }}
{{- fail "sharder.tlsSecretName: the sharder and the webhook must not share a Secret: replicas of the webhook trust any server that has its certificate" }}
{{- end }}
{{- if and .Values.aggregator.sharded (not $core) (include "breakwater.aggregates" .) }}
{{- fail "aggregator.sharded: aggregators in a worker have no ring of their own in the core. Run them in the core (aggregator.enabled there, not here), or set a ring in aggregator.extraArgs" }}
{{- end }}
{{- if .Values.shares.enabled }}
{{- if and $core (include "breakwater.aggregates" .) (include "breakwater.readsCellSecrets" .) }}
{{- fail "shares.enabled: aggregators in a core cannot move shares of other clusters. Set aggregator.enabled=false and access.aggregator=true here, and aggregator.enabled=true in the workers" }}
{{- end }}
{{- if and (eq .Values.role "core") (not .Values.access.aggregator) }}
{{- fail "shares.enabled: aggregators in the workers move shares. Set access.aggregator=true, so that they may write to this core" }}
{{- end }}
{{- if and (not $core) (not (and .Values.webhook.enabled (include "breakwater.aggregates" .))) }}
{{- fail "shares.enabled: a cell that decides while the core is unreachable needs its own components. Set webhook.enabled=true and aggregator.enabled=true" }}
{{- end }}
{{- range .Values.cores }}
{{- if and (not $core) (eq .name "shares") }}
{{- fail "shares.enabled: the webhook uses the name shares for this cluster. Choose another name for the core shares" }}
{{- end }}
{{- end }}
{{- end }}
{{- if and (eq .Values.tls.mode "self-signed") .Values.tls.ipAddresses }}
{{- fail "tls.ipAddresses: only cert-manager can put IP addresses into certificates; use host names (tls.dnsNames), or tls.mode=cert-manager" }}
{{- end }}
{{- if and (include "breakwater.inventories" .) (not (and $core .Values.topology.enabled)) }}
{{- fail "inventory: the topology controller creates Cells from inventories, in a core. Set topology.enabled in the role core or single" }}
{{- end }}
{{- range $key, $inventory := dict "argocd" .Values.inventory.argocd "clusterProfiles" .Values.inventory.clusterProfiles }}
{{- if and $inventory.enabled (not $inventory.namespace) }}
{{- fail (printf "inventory.%s.namespace: set the namespace of its entries" $key) }}
{{- end }}
{{- end }}
{{- $seen := dict }}
{{- range concat (include "breakwater.cells" . | fromJsonArray) .Values.remoteCells }}
{{- if hasKey $seen .name }}
{{- fail (printf "cells, remoteCells: %q is named twice" .name) }}
{{- end }}
{{- $_ := set $seen .name true }}
{{- if and .namespaces .podSelector }}
{{- fail (printf "cell %s: namespaces and podSelector exclude each other" .name) }}
{{- end }}
{{- end }}
{{- range .Values.remoteCells }}
{{- if and .identity (not (hasKey $seen .identity)) }}
{{- fail (printf "remoteCells: the identity %q of cell %s is not a cell: set the name of the cell of its cluster that was joined first" .identity .name) }}
{{- end }}
{{- end }}
{{- $coreNames := dict }}
{{- if $core }}{{ $_ := set $coreNames .Values.core.name true }}{{ end }}
{{- range .Values.cores }}
{{- if hasKey $coreNames .name }}
{{- fail (printf "cores: %q is named twice, or is this cluster's own name (core.name)" .name) }}
{{- end }}
{{- $_ := set $coreNames .name true }}
{{- end }}
{{- end }}

{{- /* A second Cell for the same pods would count them twice, so that too many could be removed. An upgrade that drops the value cells must not create one. */ -}}
{{- define "breakwater.checkDefaultCell" -}}
{{- if .Capabilities.APIVersions.Has "breakwater.dev/v1alpha1/Cell" }}
{{- range (lookup "breakwater.dev/v1alpha1" "Cell" "" "").items }}
{{- if and (ne .metadata.name "local") (not .spec.kubeconfigSecretRef) }}
{{- fail (printf "cells: this cluster is the cell %s already. Set its name, as in: cells: [{name: %s}]; or delete the Cell first" .metadata.name .metadata.name) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
