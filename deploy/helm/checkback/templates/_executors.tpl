{{/* Options of Spark with a master that is not local. Kubernetes puts the pod's address in; the rest comes from job.spark_options. */}}
{{- define "checkback.sparkOptions" -}}
{{- $job := .Values.job -}}
{{- $options := dict
  "spark.driver.host" "$(POD_IP)"
  "spark.driver.bindAddress" .Values.listen
  "spark.driver.port" (toString $job.driverPorts.driver)
  "spark.blockManager.port" (toString $job.driverPorts.blockManager)
-}}
{{- if include "checkback.onKubernetes" . -}}
{{- $options = merge $options (dict
  "spark.kubernetes.namespace" .Release.Namespace
  "spark.kubernetes.driver.pod.name" (printf "%s-job-0" (include "checkback.fullname" .))
  "spark.kubernetes.executor.podNamePrefix" (printf "%s-executor" (include "checkback.fullname" .))
  "spark.kubernetes.container.image" (default (include "checkback.image" .) $job.executors.image)
  "spark.kubernetes.container.image.pullPolicy" .Values.image.pullPolicy
  "spark.kubernetes.executor.podTemplateFile" "/etc/checkback/executor/pod.yaml"
  "spark.kubernetes.executor.podTemplateContainerName" "executor"
  "spark.executor.instances" (toString $job.executors.instances)
  "spark.executor.cores" (toString $job.executors.cores)
  "spark.executor.memory" $job.executors.memory
) -}}
{{- end -}}
{{- toJson $options -}}
{{- end -}}

{{/* The file that Spark makes executors' pods of: it adds image, resources, environment and names. */}}
{{- define "checkback.executorPod" -}}
apiVersion: v1
kind: Pod
metadata:
  labels: {{- include "checkback.labels" . | nindent 4 }}
    app.kubernetes.io/component: executor
spec:
  {{- include "checkback.pod" . | nindent 2 }}
  automountServiceAccountToken: false
  containers:
    - name: executor
      # Our image has no entry point for executors, as Spark's own has.
      command: [bash, /etc/checkback/executor/executor.sh]
      workingDir: /scratch # an executor puts the jars there that the driver gives it
      securityContext: {{- include "checkback.containerSecurity" . | nindent 8 }}
      env:
        {{- include "checkback.env" (dict "root" . "program" "job") | nindent 8 }}
      volumeMounts:
        {{- include "checkback.mounts" (dict "root" . "program" "job") | nindent 8 }}
        - { name: executor, mountPath: /etc/checkback/executor, readOnly: true }
        - { name: spark-local-dir-1, mountPath: /scratch } # by this name Spark takes it, and adds none at the same place
  volumes:
    {{- include "checkback.volumes" (dict "root" . "program" "job" "tmp" .Values.job.scratchSize) | nindent 4 }}
    - name: executor
      configMap: { name: {{ include "checkback.fullname" . }}-executor }
    - name: spark-local-dir-1
      emptyDir: { sizeLimit: {{ .Values.job.scratchSize }} }
{{- end -}}
