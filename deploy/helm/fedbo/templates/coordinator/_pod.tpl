{{/* True for replicas on a database; empty for one replica on a volume. */}}
{{- define "fedbo.shared" -}}
{{- if .Values.coordinator.store.postgres.secret -}}true{{- end -}}
{{- end }}

{{/* The environment of the coordinator program: the location of its data. */}}
{{- define "fedbo.coordinator.env" -}}
{{- $store := .Values.coordinator.store -}}
- name: HOME
  value: /tmp
- name: MALLOC_ARENA_MAX
  value: "1"
{{- if include "fedbo.shared" . }}
- name: FEDBO_COORDINATOR_STORE
  valueFrom:
    secretKeyRef: {name: {{ $store.postgres.secret }}, key: {{ $store.postgres.urlKey }}}
- name: PGPASSWORD
  valueFrom:
    secretKeyRef: {name: {{ $store.postgres.secret }}, key: {{ $store.postgres.passwordKey }}, optional: true}
- name: FEDBO_COORDINATOR_KEY
  value: /run/fedbo/secrets/coordinator.key
{{- else }}
- name: FEDBO_COORDINATOR
  value: /data/coordinator
{{- end }}
{{- end }}

{{/* The pod of a coordinator. */}}
{{- define "fedbo.coordinator.pod" -}}
{{- $role := .Values.coordinator -}}
{{- $shared := include "fedbo.shared" . -}}
{{- $image := include "fedbo.image" (list . (dict "repository" "" "tag" "" "digest" "")) -}}
metadata: {{- include "fedbo.podMetadata" (list . "coordinator" $role.pod) | nindent 2 }}
spec:
  {{- include "fedbo.pod" (list . $role.pod) | nindent 2 }}
  # The program exits within 10 s of SIGTERM.
  terminationGracePeriodSeconds: 20
  initContainers:
    - name: prepare
      image: {{ $image }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      {{- include "fedbo.container" . | nindent 6 }}
      command: [sh, -euc]
      args:
        - |
{{ .Files.Get "scripts/prepare-coordinator.sh" | trim | indent 10 }}
      env:
        - name: SHARED
          value: {{ ternary "yes" "no" (ne $shared "") | quote }}
      resources: {{- toYaml $role.resources | nindent 8 }}
      volumeMounts:
        - {name: run, mountPath: /run/fedbo}
        - {name: tmp, mountPath: /tmp}
        {{- if not $shared }}
        - {name: data, mountPath: /data}
        {{- end }}
        {{- if $role.key.secret }}
        - {name: key, mountPath: /etc/fedbo/key, readOnly: true}
        {{- end }}
        {{- if $role.dashboard.enabled }}
        - {name: dashboard-token, mountPath: /etc/fedbo/dashboard, readOnly: true}
        {{- end }}
  containers:
    - name: coordinator
      image: {{ $image }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      {{- include "fedbo.container" . | nindent 6 }}
      {{- if $role.maintenance }}
      command: [sh, -euc]
      args: ["trap 'exit 0' TERM; while :; do sleep 5 & wait $!; done"]
      {{- else }}
      command: [fedbo]
      args:
        - coordinator
        - run
        - --listen={{ $role.address }}:7433
        - --metrics={{ $role.address }}:7434
        {{- if $role.tls.secret }}
        - --tls-cert=/etc/fedbo/tls/tls.crt
        - --tls-key=/etc/fedbo/tls/tls.key
        {{- else }}
        - --plain-http
        {{- end }}
        {{- if $role.dashboard.enabled }}
        - --dashboard={{ ternary $role.address "127.0.0.1" (ne $role.dashboard.host "") }}:7435
        - --dashboard-token=/run/fedbo/secrets/dashboard-token
        {{- with $role.dashboard.host }}
        - --dashboard-host={{ . }}
        {{- end }}
        {{- end }}
        {{- if and $role.helper.enabled $role.helper.caConfigMap }}
        - --helper-ca=/etc/fedbo/helper/ca.crt
        {{- end }}
        - --max-connections={{ int $role.maxConnections }}
        {{- if $shared }}
        - --lease-s={{ $role.leaseSeconds }}
        {{- end }}
        - --log={{ $role.log.level }}
        - --log-format={{ $role.log.format }}
      ports:
        - {name: agents, containerPort: 7433}
        - {name: metrics, containerPort: 7434}
        {{- if and $role.dashboard.enabled $role.dashboard.host }}
        - {name: dashboard, containerPort: 7435}
        {{- end }}
      startupProbe:
        httpGet: {path: /healthz, port: metrics}
        periodSeconds: 2
        failureThreshold: 60
      livenessProbe:
        httpGet: {path: /healthz, port: metrics}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: {path: "/readyz?scope=store", port: metrics}
        periodSeconds: 5
        timeoutSeconds: 5
      {{- end }}
      env: {{- include "fedbo.coordinator.env" . | nindent 8 }}
      resources: {{- toYaml $role.resources | nindent 8 }}
      volumeMounts:
        - {name: run, mountPath: /run/fedbo, readOnly: true}
        - {name: tmp, mountPath: /tmp}
        {{- if not $shared }}
        - {name: data, mountPath: /data}
        {{- end }}
        {{- if $role.tls.secret }}
        - {name: tls, mountPath: /etc/fedbo/tls, readOnly: true}
        {{- end }}
        {{- if and $role.helper.enabled $role.helper.caConfigMap }}
        - {name: helper, mountPath: /etc/fedbo/helper, readOnly: true}
        {{- end }}
        {{- if $role.store.postgres.caConfigMap }}
        - {name: database, mountPath: /etc/fedbo/database, readOnly: true}
        {{- end }}
  volumes:
    # In-memory copies of keys with the file modes that the program requires.
    - name: run
      emptyDir: {medium: Memory, sizeLimit: 1Mi}
    - name: tmp
      emptyDir: {sizeLimit: 64Mi}
    {{- with $role.tls.secret }}
    - name: tls
      secret: {secretName: {{ . }}, defaultMode: 0440}
    {{- end }}
    {{- with $role.key.secret }}
    - name: key
      secret:
        secretName: {{ . }}
        defaultMode: 0440
        items: [{key: {{ $role.key.key }}, path: coordinator.key}]
    {{- end }}
    {{- if $role.dashboard.enabled }}
    - name: dashboard-token
      secret:
        secretName: {{ $role.dashboard.tokenSecret }}
        defaultMode: 0440
        items: [{key: {{ $role.dashboard.tokenKey }}, path: dashboard-token}]
    {{- end }}
    {{- if and $role.helper.enabled $role.helper.caConfigMap }}
    - name: helper
      configMap: {name: {{ $role.helper.caConfigMap }}}
    {{- end }}
    {{- with $role.store.postgres.caConfigMap }}
    - name: database
      configMap: {name: {{ . }}}
    {{- end }}
{{- end }}
