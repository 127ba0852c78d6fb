{{/* A value of TOML. JSON's strings, numbers and booleans are such; a table is written in one line.
     Helm's own toToml would make 2.0 of 2. */}}
{{- define "checkback.toml.value" -}}
{{- if kindIs "map" . -}}
{{- $table := . -}}
{{- $pairs := list -}}
{{- range $key := keys . | sortAlpha -}}
{{- $pairs = append $pairs (printf "%s = %s" (toRawJson $key) (include "checkback.toml.value" (index $table $key))) -}}
{{- end -}}
{{- printf "{ %s }" (join ", " $pairs) -}}
{{- else if kindIs "slice" . -}}
{{- $all := list -}}
{{- range . -}}
{{- $all = append $all (include "checkback.toml.value" .) -}}
{{- end -}}
{{- printf "[%s]" (join ", " $all) -}}
{{- else if kindIs "invalid" . -}}
{{- fail "a value in settings is null: leave the key out, and the default holds" -}}
{{- else -}}
{{- toRawJson . -}}
{{- end -}}
{{- end -}}

{{- define "checkback.toml" -}}
{{- range $number, $section := keys . | sortAlpha }}
{{- if $number }}{{ "\n" }}{{ end }}
[{{ $section }}]
{{- $keys := index $ $section }}
{{- range $key := keys $keys | sortAlpha }}
{{ $key }} = {{ include "checkback.toml.value" (index $keys $key) }}
{{- end }}
{{- end }}
{{- end -}}

{{/* What all programs have in common, the hook for topics as well. */}}
{{- define "checkback.settings.common" -}}
{{- $tls := .Values.kafka.tls -}}
{{- $files := dict -}}
{{- if $tls.secret -}}
{{- range $name := list "ca" "certificate" "key" -}}
{{- with index $tls $name -}}
{{- $_ := set $files $name (printf "/etc/checkback/kafka/%s" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $own := dict -}}
{{- if $files -}}
{{- $_ := set $own "kafka" (dict "security" $files) -}}
{{- end -}}
{{- mustMergeOverwrite (deepCopy .Values.settings) $own | toJson -}}
{{- end -}}

{{/* What follows from the chart's values, over the settings that were given. */}}
{{- define "checkback.settings" -}}
{{- $settings := include "checkback.settings.common" . | fromJson -}}
{{- $service := printf "%s-job" (include "checkback.fullname" .) -}}
{{- $inside := printf "%s.%s.svc" $service .Release.Namespace -}}
{{- $names := list $service (printf "%s.%s" $service .Release.Namespace) $inside -}}
{{- $own := dict
  "job" (dict "master" .Values.job.master)
  "http" (dict "host" .Values.listen "port" 9464 "names" (concat $names .Values.job.names))
  "checks" (dict "in_job" (not .Values.checks.enabled) "http_host" .Values.listen "http_port" 9465)
-}}
{{- if include "checkback.policy" . -}}
{{- $_ := set $own "access" (dict "policy" "/etc/checkback/access/access.toml") -}}
{{- end -}}
{{- if .Values.gateway.enabled -}}
{{- $gateway := dict "host" .Values.listen "port" 8081 "http_port" 8082 "check_host" .Values.listen "check_port" 8083 -}}
{{- if .Values.gateway.tls.secret -}}
{{- $_ := set $gateway "tls_port" .Values.gateway.tls.port -}}
{{- $_ := set $gateway "tls_certificate" "/etc/checkback/gateway/tls.crt" -}}
{{- $_ := set $gateway "tls_key" "/etc/checkback/gateway/tls.key" -}}
{{- end -}}
{{- $_ := set $own "gateway" $gateway -}}
{{- end -}}
{{- mustMergeOverwrite $settings $own | toJson -}}
{{- end -}}

{{/* Where a secret of the environment comes from. */}}
{{- define "checkback.secretEnv" -}}
{{- if .from.secret }}
- name: {{ .name }}
  valueFrom: { secretKeyRef: { name: {{ .from.secret }}, key: {{ .from.key }} } }
{{- end }}
{{- end -}}

{{/* Variables of every program: `root`, and `program` (job, checks, gateway, topics). */}}
{{- define "checkback.env" -}}
{{- $values := .root.Values -}}
- { name: HOME, value: /home/checkback } # of the image: the jars, and Java's archive of classes. Nothing is written there
- { name: TMPDIR, value: /tmp }
- { name: CHECKBACK_CONFIG, value: /etc/checkback/settings/checkback.toml } # also for `kubectl exec ... -- checkback status`
{{- include "checkback.secretEnv" (dict "name" "CHECKBACK_KAFKA__SECURITY__PASSWORD" "from" $values.kafka.password) }}
{{- include "checkback.secretEnv" (dict "name" "CHECKBACK_KAFKA__SECURITY__KEY_PASSWORD" "from" $values.kafka.keyPassword) }}
{{- with get $values.access .program }}
{{- if .secret }}
- { name: CHECKBACK_ACCESS__SECRETS, value: /etc/checkback/keys/secrets.toml }
{{- end }}
{{- if .key }}
- { name: CHECKBACK_ACCESS__KEY, value: {{ quote .key }} }
{{- end }}
{{- end }}
{{- with $values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "checkback.mounts" -}}
{{- $values := .root.Values -}}
- { name: settings, mountPath: /etc/checkback/settings, readOnly: true }
- { name: tmp, mountPath: /tmp }
{{- if $values.kafka.tls.secret }}
- { name: kafka, mountPath: /etc/checkback/kafka, readOnly: true }
{{- end }}
{{- if and (include "checkback.policy" .root) (ne .program "topics") }}
- { name: access, mountPath: /etc/checkback/access, readOnly: true } # a whole folder: with subPath a change would not arrive
{{- end }}
{{- if (get $values.access .program | default dict).secret }}
- { name: keys, mountPath: /etc/checkback/keys, readOnly: true }
{{- end }}
{{- with $values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "checkback.volumes" -}}
{{- $values := .root.Values -}}
{{- $fullname := include "checkback.fullname" .root -}}
- name: settings
  configMap: { name: {{ ternary (printf "%s-topics" $fullname) $fullname (eq .program "topics") }} }
- name: tmp
  emptyDir: { sizeLimit: {{ .tmp | default "1Gi" }} }
{{- with $values.kafka.tls.secret }}
- name: kafka
  secret: { secretName: {{ . }}, defaultMode: 288 } # 0440
{{- end }}
{{- if and (include "checkback.policy" .root) (ne .program "topics") }}
- name: access
  configMap: { name: {{ default (printf "%s-access" $fullname) $values.access.configMap }} }
{{- end }}
{{- with (get $values.access .program | default dict).secret }}
- name: keys
  secret: { secretName: {{ . }}, defaultMode: 288 } # 0440: a file that others may read is warned of
{{- end }}
{{- with $values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Settings are read at a start: a change of them starts the programs again. The access policy is not among them. */}}
{{- define "checkback.annotations" -}}
checksum/settings: {{ include "checkback.settings" .root | sha256sum }}
{{- with .more }}
{{ toYaml . }}
{{- end }}
{{- end -}}
