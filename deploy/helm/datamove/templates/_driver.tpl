{{/* driverConfig is csi.yaml: what values say, and the service where they do not. */}}
{{- define "datamove.driverConfig" -}}
{{- $config := deepCopy .Values.driver.config -}}
{{- if and .Values.mover.enabled .Values.mover.agent.enabled (not (hasKey $config "service")) -}}
{{- $_ := set $config "service" (printf "unix://%s/datamoved.sock" .Values.mover.agent.socketPath) -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{/* driverSocket is the directory of the mover's socket on the node; "" is none. */}}
{{- define "datamove.driverSocket" -}}
{{- $service := (include "datamove.driverConfig" . | fromYaml).service | default "" -}}
{{- if hasPrefix "unix://" $service -}}
{{- $service | trimPrefix "unix://" | dir -}}
{{- end -}}
{{- end -}}

{{/* relaySecret takes a list: the context, and controller or node. */}}
{{- define "datamove.relaySecret" -}}
{{- $ := index . 0 -}}
{{- $who := index . 1 -}}
{{- index $.Values.driver.relay (printf "%sSecret" $who) | default (printf "%s-relay-%s" (include "datamove.fullname" $) $who) -}}
{{- end -}}

{{/* driverVolumes takes a list: the context, controller or node, and the uses of file systems that it has. */}}
{{- define "datamove.driverVolumes" -}}
{{- $ := index . 0 -}}
- name: config
  projected:
    defaultMode: 0400
    sources:
      - configMap:
          name: {{ include "datamove.fullname" $ }}-csi
          items: [{key: csi.yaml, path: csi.yaml}]
      - secret:
          name: {{ include "datamove.relaySecret" (list $ (index . 1)) }}
          items:
            - {key: tls.crt, path: relay/tls.crt}
            - {key: tls.key, path: relay/tls.key}
            - {key: ca.crt, path: relay/ca.crt}
{{- $uses := index . 2 }}
{{- range $i, $name := $.Values.driver.config.fileSystems | default dict | keys | sortAlpha }}
{{- $fs := get $.Values.driver.config.fileSystems $name }}
{{- if has $fs.use $uses }}
- name: root-{{ $i }} # {{ $name }}
  hostPath: {path: {{ $fs.root | quote }}, type: DirectoryOrCreate}
{{- end }}
{{- end }}
{{- with include "datamove.driverSocket" $ }}
- name: mover
  hostPath: {path: {{ . }}, type: DirectoryOrCreate}
{{- end }}
{{- include "datamove.secretVolumes" $.Values.driver.secrets }}
{{- with $.Values.driver.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* driverMounts takes the same. What the driver of a node mounts itself the node sees, so that it outlives the pod;
     what the node mounts, the driver sees. */}}
{{- define "datamove.driverMounts" -}}
{{- $ := index . 0 -}}
- {name: config, mountPath: /etc/datamove, readOnly: true}
{{- $who := index . 1 }}
{{- $uses := index . 2 }}
{{- range $i, $name := $.Values.driver.config.fileSystems | default dict | keys | sortAlpha }}
{{- $fs := get $.Values.driver.config.fileSystems $name }}
{{- if has $fs.use $uses }}
- {name: root-{{ $i }}, mountPath: {{ $fs.root | quote }}, mountPropagation: {{ if and $fs.mount (eq $who "node") }}Bidirectional{{ else }}HostToContainer{{ end }}}
{{- end }}
{{- end }}
{{- with include "datamove.driverSocket" $ }}
- {name: mover, mountPath: {{ . }}, readOnly: true}
{{- end }}
{{- include "datamove.secretMounts" $.Values.driver.secrets }}
{{- with $.Values.driver.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* driverMounting is not empty where the controller has to mount a file system. */}}
{{- define "datamove.driverMounting" -}}
{{- range .Values.driver.config.fileSystems | default dict -}}
{{- if and .mount (eq .use "project") }}yes{{ end -}}
{{- end -}}
{{- end -}}
