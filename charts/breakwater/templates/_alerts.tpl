{{- /* The alert rules of this release, from files/alerts.yaml. */ -}}
{{- define "breakwater.alerts" -}}
{{- $rule := .Values.metrics.prometheusRule }}
{{- $text := .Files.Get "files/alerts.yaml" }}
{{- range $name, $number := $rule.thresholds }}
{{- /* Helm parses integers of values.yaml as floats, which would be printed as 1.2096e+06. */}}
{{- $text = $text | replace (printf "<%s>" $name) (printf "%d" (int64 $number)) }}
{{- end }}
{{- $errorBudget := round (divf (subf 100 $rule.objective.percent) 100) 6 }}
{{- $text = $text | replace "<errorBudget>" (toString $errorBudget) | replace "<sloReviews>" (printf "%d" (int64 $rule.objective.minReviews)) }}
{{- $alerts := list }}
{{- range $text | fromYamlArray }}
{{- $runs := true }}
{{- with .component }}
{{- $runs = and (get $.Values .).enabled (or (eq . "webhook") (ternary (include "breakwater.isWorker" $) (include "breakwater.isCore" $) (eq . "node"))) }}
{{- end }}
{{- if $runs }}
{{- $last := ternary $rule.forCritical $rule.for (eq .labels.severity "critical") }}
{{- $page := printf "%s/%s.md" (trimSuffix "/" $rule.runbookURL) (.alert | trimPrefix "Breakwater" | kebabcase) }}
{{- $annotations := merge (dict "runbook_url" $page) .annotations }}
{{- $alerts = append $alerts (merge (dict "for" $last "annotations" $annotations) (omit . "component")) }}
{{- end }}
{{- end }}
{{- toYaml $alerts }}
{{- end }}

{{- /* The recording rules, from files/recording.yaml and files/objectives.yaml. */ -}}
{{- define "breakwater.recordings" -}}
{{- $rules := .Files.Get "files/recording.yaml" | fromYamlArray }}
{{- range list "5m" "30m" "1h" "2h" "6h" "1d" "3d" }}
{{- $rules = concat $rules ($.Files.Get "files/objectives.yaml" | replace "<window>" . | fromYamlArray) }}
{{- end }}
{{- toYaml $rules }}
{{- end }}
