{{- define "datamove.coordinatorEnabled" -}}
{{- if and .Values.mover.enabled .Values.mover.coordinator.enabled }}yes{{ end -}}
{{- end -}}

{{- define "datamove.agentEnabled" -}}
{{- if and .Values.mover.enabled .Values.mover.agent.enabled }}yes{{ end -}}
{{- end -}}

{{/* agentConfig is the configuration of agents; coordinatorConfig that of the coordinator, which also lets agents join. */}}
{{- define "datamove.agentConfig" -}}
{{- $a := .Values.mover.agent -}}
{{- $ours := dict
      "listen" (list (printf "unix://%s/datamoved.sock" $a.socketPath))
      "data" $a.dataPath
      "scrape" (printf "%s:%v" .Values.mover.coordinator.listen $a.httpPort) -}}
{{- if $a.hostAccounts -}}
{{- $_ := set $ours "accounts" "/host/etc" -}}
{{- end -}}
{{- merge $ours .Values.mover.config | toYaml -}}
{{- end -}}

{{- define "datamove.coordinatorConfig" -}}
{{- $name := include "datamove.fullname" . -}}
{{- $c := .Values.mover.coordinator -}}
{{- $ours := dict
      "listen" (list "unix:///run/datamove/datamoved.sock" (printf "tcp://%s:%v" $c.listen $c.port))
      "data" "/var/lib/datamove/state"
      "node" "coordinator"
      "scrape" (printf "%s:%v" $c.listen $c.httpPort) -}}
{{- if .Values.mover.agent.enabled -}}
{{- $join := dict "service_account" (printf "%s/%s-agent" .Release.Namespace $name) "config_map" (printf "%s/%s-authority" .Release.Namespace $name) -}}
{{- $_ := set $ours "join" (dict "kubernetes" $join) -}}
{{- end -}}
{{- merge $ours .Values.mover.config | toYaml -}}
{{- end -}}

{{/* coordinatorAddress is where agents call. */}}
{{- define "datamove.coordinatorAddress" -}}
{{- $address := .Values.mover.coordinator.address | trimPrefix "tcp://" -}}
{{- if and .Values.mover.coordinator.enabled (not $address) -}}
{{- printf "tcp://%s-coordinator.%s.svc:%v" (include "datamove.fullname" .) .Release.Namespace .Values.mover.coordinator.port -}}
{{- else -}}
{{- printf "tcp://%s" (required "mover.coordinator.address is needed where coordinator.enabled is false" $address) -}}
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
