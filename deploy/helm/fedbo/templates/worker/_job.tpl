{{/* The specification of the workers' Job. */}}
{{- define "fedbo.worker.spec" -}}
{{- $role := .Values.worker -}}
# No completion count: the first worker that finds the study complete ends the Job, and the others exit on their own.
parallelism: {{ int $role.parallelism }}
backoffLimit: {{ int $role.backoffLimit }}
ttlSecondsAfterFinished: {{ int $role.ttlSecondsAfterFinished }}
podFailurePolicy:
  rules:
    # Every trial failed: another worker would waste trials in the same way. Other exit codes count towards the limit, including
    # 2, which also occurs while a database is not reachable yet.
    - action: FailJob
      onExitCodes: {containerName: worker, operator: In, values: [5]}
    # An eviction or a drained node is not a failure, nor is the SIGTERM that comes with it.
    - action: Ignore
      onPodConditions: [{type: DisruptionTarget, status: "True"}]
    - action: Ignore
      onExitCodes: {containerName: worker, operator: In, values: [130]}
template:
  metadata: {{- include "fedbo.podMetadata" (list . "worker" $role.pod) | nindent 4 }}
  spec:
    {{- include "fedbo.pod" (list . $role.pod) | nindent 4 }}
    restartPolicy: Never
    terminationGracePeriodSeconds: {{ int $role.terminationGracePeriodSeconds }}
    containers:
      - name: worker
        image: {{ include "fedbo.image" (list . $role.image) }}
        imagePullPolicy: {{ .Values.image.pullPolicy }}
        {{- include "fedbo.container" . | nindent 8 }}
        command: [fedbo]
        args: [tune, /etc/fedbo/study/study.toml, --jobs={{ int $role.jobs }}]
        # Files that a command writes next to itself go here.
        workingDir: /tmp
        env:
          - name: HOME
            value: /tmp
          {{- with $role.postgres.secret }}
          - name: PGPASSWORD
            valueFrom:
              secretKeyRef: {name: {{ . }}, key: {{ $role.postgres.passwordKey }}}
          {{- end }}
          {{- with $role.env }}
          {{- toYaml . | nindent 10 }}
          {{- end }}
        resources: {{- toYaml $role.resources | nindent 10 }}
        volumeMounts:
          - {name: study, mountPath: /etc/fedbo/study, readOnly: true}
          - {name: tmp, mountPath: /tmp}
          {{- if $role.postgres.caConfigMap }}
          - {name: database, mountPath: /etc/fedbo/database, readOnly: true}
          {{- end }}
          {{- with $role.volumeMounts }}
          {{- toYaml . | nindent 10 }}
          {{- end }}
    volumes:
      - name: study
        configMap:
          name: {{ $role.studyConfigMap | default (include "fedbo.name" (list . "study")) }}
          defaultMode: 0555
      - name: tmp
        emptyDir: {}
      {{- with $role.postgres.caConfigMap }}
      - name: database
        configMap: {name: {{ . }}}
      {{- end }}
      {{- with $role.volumes }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
{{- end }}
