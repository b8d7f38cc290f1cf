{{- define "datamove.coordinatorEnabled" -}}
{{- if and .Values.mover.enabled .Values.mover.coordinator.enabled }}yes{{ end -}}
{{- end -}}

{{- define "datamove.agentEnabled" -}}
{{- if and .Values.mover.enabled .Values.mover.agent.enabled }}yes{{ end -}}
{{- end -}}

{{/* moverConfig is the configuration of agents; coordinatorConfig that of the coordinator, which also lets agents join. */}}
{{- define "datamove.moverConfig" -}}
{{- merge (dict "scrape" (printf "%s:%v" .Values.mover.coordinator.listen .Values.mover.httpPort)) .Values.mover.config | toYaml -}}
{{- end -}}

{{- define "datamove.coordinatorConfig" -}}
{{- $name := include "datamove.fullname" . -}}
{{- $config := include "datamove.moverConfig" . | fromYaml -}}
{{- if .Values.mover.agent.enabled -}}
{{- $join := dict "service_account" (printf "%s/%s-agent" .Release.Namespace $name) "config_map" (printf "%s/%s-authority" .Release.Namespace $name) -}}
{{- $_ := set $config "join" (dict "kubernetes" $join) -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{/* coordinatorAddress is where agents call. */}}
{{- define "datamove.coordinatorAddress" -}}
{{- if .Values.mover.coordinator.enabled -}}
{{- printf "tcp://%s-coordinator.%s.svc:%v" (include "datamove.fullname" .) .Release.Namespace .Values.mover.coordinator.port -}}
{{- else -}}
{{- printf "tcp://%s" (required "mover.coordinator.address is needed where coordinator.enabled is false" .Values.mover.coordinator.address | trimPrefix "tcp://") -}}
{{- end -}}
{{- end -}}

{{/* tierPaths are the directories of tiers, as a YAML list; one that lies in another comes with that. */}}
{{- define "datamove.tierPaths" -}}
{{- $all := list -}}
{{- range .Values.mover.config.tiers | default dict -}}
{{- if .path }}{{ $all = append $all (trimSuffix "/" .path) }}{{ end -}}
{{- end -}}
{{- $all = uniq $all | sortAlpha -}}
{{- $top := list -}}
{{- range $path := $all -}}
{{- $inside := false -}}
{{- range $all }}{{ if hasPrefix (printf "%s/" .) $path }}{{ $inside = true }}{{ end }}{{ end -}}
{{- if not $inside }}{{ $top = append $top $path }}{{ end -}}
{{- end -}}
{{- toYaml $top -}}
{{- end -}}
