{{- define "checkback.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "checkback.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "checkback.labels" -}}
{{ include "checkback.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "checkback.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository (default .Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "checkback.serviceAccount" -}}
{{- default (include "checkback.fullname" .) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "checkback.local" -}}
{{- if hasPrefix "local" .Values.job.master }}yes{{ end -}}
{{- end -}}

{{- define "checkback.onKubernetes" -}}
{{- if hasPrefix "k8s://" .Values.job.master }}yes{{ end -}}
{{- end -}}

{{- define "checkback.onVolume" -}}
{{- if not .Values.job.checkpoint }}yes{{ end -}}
{{- end -}}

{{- define "checkback.policy" -}}
{{- if or .Values.access.policy .Values.access.configMap }}yes{{ end -}}
{{- end -}}

{{/* What the schema cannot say: a value that needs another one. */}}
{{- define "checkback.refuse" -}}
{{- if and (not (include "checkback.local" .)) (include "checkback.onVolume" .) -}}
{{- fail "job.master is not local: name a place in job.checkpoint that executors reach, as hdfs://names:8020/checkback" -}}
{{- end -}}
{{- if and .Values.gateway.enabled (not (include "checkback.policy" .)) -}}
{{- fail "gateway.enabled needs access.policy or access.configMap: a gateway lets in only those whom the policy names" -}}
{{- end -}}
{{- if and .Values.gateway.enabled (not .Values.gateway.secrets.secret) -}}
{{- fail "gateway.enabled needs gateway.secrets.secret: all replicas have to sign transaction ids with the same" -}}
{{- end -}}
{{- if and .Values.access.policy .Values.access.configMap -}}
{{- fail "access.policy and access.configMap: give one of them" -}}
{{- end -}}
{{- range $program := list "job" "checks" "gateway" -}}
{{- $one := index $.Values.access $program -}}
{{- if and $one.key (not $one.secret) -}}
{{- fail (printf "access.%s.key needs access.%s.secret, which has its secret" $program $program) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A pod without rights, and with a user that owns nothing of the image. */}}
{{- define "checkback.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001 # of the image
runAsGroup: 10001
fsGroup: 10001 # so that the volume and the files of Secrets are readable for it, and for nobody else
fsGroupChangePolicy: OnRootMismatch
seccompProfile: { type: RuntimeDefault }
{{- end -}}

{{- define "checkback.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end -}}

{{- define "checkback.placement" -}}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{/* Of all pods. Without enableServiceLinks: false a Service named checkback gives them CHECKBACK_SERVICE_HOST and
     CHECKBACK_PORT, and every program of ours refuses to start: "Unknown environment variable". */}}
{{- define "checkback.pod" -}}
enableServiceLinks: false
securityContext: {{- include "checkback.podSecurity" . | nindent 2 }}
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "checkback.container" -}}
image: {{ include "checkback.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext: {{- include "checkback.containerSecurity" . | nindent 2 }}
{{- end -}}

{{/* Pods of several replicas: on as many nodes, and in as many zones, as there are. */}}
{{- define "checkback.spread" -}}
{{- $match := dict "matchLabels" (merge (dict "app.kubernetes.io/component" .component) (include "checkback.selector" .root | fromYaml)) -}}
topologySpreadConstraints:
  {{- range $key := list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ $key }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector: {{- toYaml $match | nindent 6 }}
  {{- end }}
{{- end -}}
