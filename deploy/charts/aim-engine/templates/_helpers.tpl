{{- define "aim.services" -}}
{{ .Files.Get "files/services.txt" | trim }}
{{- end }}

{{- /* What names begin with, whatever the release is called (FW-323). */}}
{{- define "aim.fullname" -}}
{{ .Values.fullnameOverride | default "aim-engine" }}
{{- end }}

{{- /* The ServiceAccount of a service or of the console. */}}
{{- define "aim.account" -}}
{{ .root.Values.serviceAccount.name | default (include "aim.fullname" .root) }}-{{ .component }}
{{- end }}

{{- /* Takes the former names of values for one release (FW-886); begins every template that reads values. */}}
{{- define "aim.accept" -}}
{{- range $path, $default := include "aim.switches" . | fromJson -}}
{{- $section := $.Values -}}
{{- range $name := splitList "." $path }}{{ $section = index ($section | default dict) $name }}{{ end -}}
{{- if hasKey ($section | default dict) "enable" -}}
{{- if and (hasKey $section "enabled") (ne $section.enabled $default) (ne $section.enabled $section.enable) -}}
{{- fail (printf "%s.enable and %s.enabled differ; remove %s.enable, the former name" $path $path $path) -}}
{{- end -}}
{{- $_ := set $section "enabled" $section.enable -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /* Where values can be left out: paths with their defaults. */}}
{{- define "aim.switches" -}}
{{- $found := .Files.Get "files/switches.json" | fromJson -}}
{{- range $name, $own := .Values.services -}}
{{- if $own.podDisruptionBudget }}{{ $_ := set $found (printf "services.%s.podDisruptionBudget" $name) true }}{{ end -}}
{{- end -}}
{{- toJson $found -}}
{{- end }}

{{- define "aim.labels" -}}
app.kubernetes.io/name: aim-engine
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/part-of: aim-engine
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "aim.selector" -}}
app.kubernetes.io/name: aim-engine
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- /* Of pods: nothing that changes with the release, which would replace them (FW-700). */}}
{{- define "aim.podLabels" -}}
{{ include "aim.selector" . }}
app.kubernetes.io/part-of: aim-engine
{{- end }}

{{- define "aim.image" -}}
{{- $tag := .image.tag | default .default -}}
{{- $repository := .repository -}}
{{- with .root.Values.global.imageRegistry -}}
{{- $repository = printf "%s/%s" . (regexReplaceAll "^(localhost|[^/]*[.:][^/]*)/" $repository "") -}}
{{- end -}}
{{- if .image.digest }}{{ $repository }}@{{ .image.digest }}{{ else }}{{ $repository }}:{{ $tag }}{{ end -}}
{{- end }}

{{- define "aim.pullSecrets" -}}
{{- with concat (.root.Values.global.imagePullSecrets | default list) (.own | default list) | uniq -}}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end }}

{{- /* Where a pod that runs once goes; what is empty is as `manager` says. */}}
{{- define "aim.placement" -}}
{{- $manager := .root.Values.manager -}}
{{- include "aim.pullSecrets" (dict "root" .root "own" (.own.imagePullSecrets | default $manager.imagePullSecrets)) }}
{{- range $key := list "nodeSelector" "tolerations" "affinity" "priorityClassName" }}
{{- with index $.own $key | default (index $manager $key) }}
{{ dict $key . | toYaml }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Nine tenths of a limit of memory, in bytes: what the Go runtime is told to stay below. */}}
{{- define "aim.goMemory" -}}
{{- $units := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 -}}
{{- $number := regexFind "^[0-9]+(\\.[0-9]+)?" . -}}
{{- $unit := trimPrefix $number . -}}
{{- if and $number (hasKey $units $unit) -}}
{{- mulf (float64 $number) (index $units $unit) 0.9 | int64 -}}
{{- end -}}
{{- end }}

{{- /* What holds for one service, or the console: manager, with its overrides over it. An image may have another name. */}}
{{- define "aim.workload" -}}
{{- $manager := deepCopy .root.Values.manager -}}
{{- $override := index .root.Values.services .name | default dict -}}
{{- $repository := dig "image" "repository" "" $override | default (printf "%s-%s" $manager.image.repository (.image | default .name)) -}}
{{- include "aim.overlay" (dict "base" $manager "over" $override) -}}
{{- $_ := set $manager.image "repository" $repository -}}
{{- toYaml $manager -}}
{{- end }}

{{- /* Puts one map over another, in place. The function of that purpose takes no notice of 0, false and "". */}}
{{- define "aim.overlay" -}}
{{- $base := .base -}}
{{- range $key, $value := .over -}}
{{- if and (kindIs "map" $value) (kindIs "map" (index $base $key)) -}}
{{- include "aim.overlay" (dict "base" (index $base $key) "over" $value) -}}
{{- else -}}
{{- $_ := set $base $key $value -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /* Who a pod runs as, and where. */}}
{{- define "aim.workloadPlacement" -}}
securityContext: {{- toYaml .w.podSecurityContext | nindent 2 }}
{{- with include "aim.pullSecrets" (dict "root" .scope.root "own" .w.imagePullSecrets) }}
{{ . }}
{{- end }}
{{- range $key := list "hostAliases" "dnsConfig" }}
{{- with index $.w $key }}
{{ dict $key . | toYaml }}
{{- end }}
{{- end }}
{{- with .w.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .w.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .w.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .w.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
topologySpreadConstraints:
  {{- if .w.topologySpreadConstraints }}
  {{- toYaml .w.topologySpreadConstraints | nindent 2 }}
  {{- else }}
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "aim.selector" .scope | nindent 8 }}
  {{- end }}
{{- end }}

{{- define "aim.budget" }}
{{- if and (dig "enabled" false (.w.podDisruptionBudget | default dict)) (gt (int .w.replicas) 1) }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "aim.fullname" .scope.root }}-{{ .scope.component }}
  namespace: {{ .scope.root.Release.Namespace }}
  labels: {{- include "aim.labels" .scope | nindent 4 }}
spec:
  {{- with .w.podDisruptionBudget }}
  {{- if ne (toString .minAvailable) "" }}
  minAvailable: {{ .minAvailable }}
  {{- else }}
  maxUnavailable: {{ .maxUnavailable }}
  {{- end }}
  {{- with .unhealthyPodEvictionPolicy }}
  unhealthyPodEvictionPolicy: {{ . }}
  {{- end }}
  {{- end }}
  selector:
    matchLabels: {{- include "aim.selector" .scope | nindent 6 }}
{{- end }}
{{- end }}

{{- define "aim.permissions" -}}
{{- .Files.Get "files/permissions.yaml" -}}
{{- end }}

{{- define "aim.natsUrl" -}}
{{- if .Values.nats.enabled -}}
{{ ternary "tls" "nats" (ne .Values.nats.tls.secretName "") }}://{{ include "aim.fullname" . }}-nats.{{ .Release.Namespace }}.svc:4222
{{- else -}}
{{ required "nats.url is needed where nats.enabled is false: the URL of your broker" .Values.nats.url }}
{{- end -}}
{{- end }}

{{- /* The ports of an existing broker (FW-701). */}}
{{- define "aim.natsPorts" -}}
{{- $ports := list -}}
{{- range splitList "," (include "aim.natsUrl" .) -}}
{{- $ports = append $ports (regexFind ":[0-9]+$" (urlParse (trim .)).host | trimPrefix ":" | default "4222" | int) -}}
{{- end -}}
{{- uniq $ports | toJson -}}
{{- end }}

{{- /* Name of the port of the metrics, which says what is spoken there (FW-325). */}}
{{- define "aim.metricsPort" -}}
{{ ternary "https" "http" .Values.metrics.secure }}
{{- end }}

{{- /* Secret with the certificate of the metrics; empty where pods sign their own. */}}
{{- define "aim.metricsSecret" -}}
{{- if and .Values.metrics.enabled .Values.metrics.secure -}}
{{- .Values.metrics.certSecret | default (ternary (printf "%s-metrics-tls" (include "aim.fullname" .)) "" .Values.certManager.enabled) -}}
{{- end -}}
{{- end }}

{{- /* Secret with the certificate of the console; empty where its pod signs its own. */}}
{{- define "aim.consoleSecret" -}}
{{- .Values.console.certSecret | default (ternary (printf "%s-console-tls" (include "aim.fullname" .)) "" .Values.certManager.enabled) -}}
{{- end }}

{{- /* Names that the console is opened by. */}}
{{- define "aim.consoleHosts" -}}
{{- prepend .Values.console.hosts (printf "%s-console.%s.svc" (include "aim.fullname" .) .Release.Namespace) | uniq | toJson -}}
{{- end }}

{{- /* The rules of a role; without Secrets where values name the ones that may be read (FW-507). */}}
{{- define "aim.rules" -}}
{{- $kept := list -}}
{{- range .rules -}}
{{- $resources := .resources -}}
{{- if $.root.Values.secrets.restrict -}}
{{- $resources = without .resources "secrets" -}}
{{- end -}}
{{- if $resources -}}
{{- $kept = append $kept (merge (dict "resources" $resources) .) -}}
{{- end -}}
{{- end -}}
{{- toYaml $kept -}}
{{- end }}

{{- /*
Of an object of the platform's own kinds: helm looks up all kinds before it makes any object, so with a first installation,
which brings the kinds, it comes afterwards; behind the check, which waits until the kinds are served. The next run finds it
as an object of the release, by the annotations, or makes it if the check failed. The first revision does not have it, so it is kept where a rollback would delete it.
*/}}
{{- define "aim.afterDefinitions" -}}
annotations:
  helm.sh/resource-policy: keep
{{- if not (.Capabilities.APIVersions.Has "aim.eai.amd.com/v1alpha1/AIMService") }}
  helm.sh/hook: post-install
  helm.sh/hook-weight: "1"
  meta.helm.sh/release-name: {{ .Release.Name }}
  meta.helm.sh/release-namespace: {{ .Release.Namespace }}
{{- end }}
{{- end }}

{{- define "aim.afterwards" -}}
helm.sh/hook: post-install,post-upgrade
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{- /* What reads the event log: the way to the broker, as the user `aim`. */}}
{{- define "aim.readerEnv" -}}
- name: AIM_NATS_URL
  value: {{ include "aim.natsUrl" . }}
- name: AIM_NATS_ROOT
  value: {{ .Values.nats.root }}
{{- with .Values.nats.jetstreamDomain }}
- name: AIM_NATS_JETSTREAM_DOMAIN
  value: {{ . }}
{{- end }}
{{- if .Values.nats.auth.enabled }}
- name: AIM_NATS_CREDENTIALS_FILE
  value: /etc/aim/nats/user.nk
{{- end }}
{{- if .Values.nats.tls.secretName }}
- name: AIM_NATS_CA_FILE
  value: /etc/aim/nats-ca/ca.crt
{{- end }}
{{- end }}

{{- define "aim.readerMounts" -}}
- name: tmp
  mountPath: /tmp
{{- if .Values.nats.auth.enabled }}
- name: nats
  mountPath: /etc/aim/nats
  readOnly: true
{{- end }}
{{- if .Values.nats.tls.secretName }}
- name: nats-ca
  mountPath: /etc/aim/nats-ca
  readOnly: true
{{- end }}
{{- end }}

{{- define "aim.readerVolumes" -}}
- name: tmp
  emptyDir: {}
{{- if .Values.nats.auth.enabled }}
- name: nats
  secret:
    secretName: {{ .Values.nats.auth.secretPrefix }}aim
{{- end }}
{{- with .Values.nats.tls.secretName }}
- name: nats-ca
  secret:
    secretName: {{ . }}
    items: [{key: ca.crt, path: ca.crt}]
{{- end }}
{{- end }}

{{- define "aim.dnsEgress" }}
- ports:
    {{- range .Values.networkPolicy.dns.ports }}
    - {protocol: UDP, port: {{ . }}}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
  {{- with .Values.networkPolicy.dns.to }}
  to: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{- /* Name service, API server and broker. */}}
{{- define "aim.commonEgress" -}}
{{- include "aim.dnsEgress" . }}
- to:
    {{- range .Values.networkPolicy.apiServerCidrs }}
    - {ipBlock: {cidr: {{ . | quote }}}}
    {{- end }}
  ports:
    {{- range .Values.networkPolicy.apiServerPorts }}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
{{- if .Values.nats.enabled }}
- to:
    - podSelector:
        matchLabels: {{- include "aim.selector" (dict "root" . "component" "nats") | nindent 10 }}
  ports: [{protocol: TCP, port: 4222}]
{{- else }}
- ports:
    {{- range include "aim.natsPorts" . | fromJsonArray }}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
{{- end }}
{{- end }}
