{{/* The name of a role's objects: (list . "coordinator") */}}
{{- define "fedbo.name" -}}
{{- $top := index . 0 -}}
{{- printf "%s-%s" ($top.Release.Name | trunc 40 | trimSuffix "-") (index . 1) -}}
{{- end }}

{{/* Labels that select pods. They must never change. */}}
{{- define "fedbo.selector" -}}
{{- $top := index . 0 -}}
app.kubernetes.io/name: fedbo
app.kubernetes.io/instance: {{ $top.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* All labels. */}}
{{- define "fedbo.labels" -}}
{{- $top := index . 0 -}}
{{ include "fedbo.selector" . }}
app.kubernetes.io/version: {{ $top.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $top.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $top.Chart.Name $top.Chart.Version | replace "+" "_" }}
{{- end }}

{{/* The image of a role: (list . .Values.worker.image). Empty keys default to those of the program's image. */}}
{{- define "fedbo.image" -}}
{{- $top := index . 0 -}}{{- $own := index . 1 -}}{{- $common := $top.Values.image -}}
{{- $repository := $own.repository | default $common.repository -}}
{{- $tag := $own.tag -}}{{- $digest := $own.digest -}}
{{- if not $own.repository -}}
{{- $tag = $own.tag | default $common.tag -}}
{{- $digest = $own.digest | default (ternary "" $common.digest (ne $own.tag "")) -}}
{{- end -}}
{{- if $digest -}}
{{- printf "%s@%s" $repository $digest -}}
{{- else -}}
{{- printf "%s:%s" $repository ($tag | default $top.Chart.AppVersion) -}}
{{- end -}}
{{- end }}

{{/* Settings common to all pods: (list . .Values.coordinator.pod) */}}
{{- define "fedbo.pod" -}}
{{- $top := index . 0 -}}{{- $pod := index . 1 -}}
serviceAccountName: {{ $top.Release.Name | trunc 50 | trimSuffix "-" }}-fedbo
automountServiceAccountToken: false
enableServiceLinks: false
{{- with $top.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: {{ int $top.Values.user }}
  runAsGroup: {{ int $top.Values.group }}
  fsGroup: {{ int $top.Values.group }}
  # Group permissions are set only on a new volume. Setting them again would open keys to the group, which fedbo refuses.
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- with $pod.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $pod.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $pod.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $pod.topologySpreadConstraints }}
topologySpreadConstraints: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $pod.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{/* Settings common to all containers. */}}
{{- define "fedbo.container" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{/* Egress to DNS servers, which some clusters run on the node. */}}
{{- define "fedbo.dns" -}}
- ports:
    - {protocol: UDP, port: 53}
    - {protocol: TCP, port: 53}
{{- end }}

{{/* Labels and annotations of a role's pods: (list . "worker" .Values.worker.pod) */}}
{{- define "fedbo.podMetadata" -}}
{{- $pod := index . 2 -}}
labels: {{- include "fedbo.labels" . | nindent 2 }}
{{- with $pod.labels }}
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $pod.annotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* A claim of a role's volume: (list . .Values.agent.storage "agent") */}}
{{- define "fedbo.claim" -}}
{{- $volume := index . 1 -}}
- metadata:
    name: data
    labels: {{- include "fedbo.selector" (list (index . 0) (index . 2)) | nindent 6 }}
  spec:
    accessModes: [{{ $volume.accessMode }}]
    {{- with $volume.storageClass }}
    storageClassName: {{ . }}
    {{- end }}
    resources:
      requests:
        storage: {{ $volume.size }}
{{- end }}
