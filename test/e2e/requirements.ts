/**
 * The mission as data, one requirement a line: id, the capability it is part of (A … D; `-` for those of
 * no single one), what it is. A test claims a requirement by citing its id in its title; `coverage.test.ts` keeps count.
 *
 * `S…` are the rows of the five seed documents, `check:` the checklist, `proto:` the duties of an intermediary,
 * `fault:` the fault matrix, `goal:` the figures that `npm run prove` shows.
 */
const LINES = `
S0.1 D wire mcp.{name}.execute / SubjectExecute(name)
S0.2 D wire mcp.{name}.list-tools / SubjectListTools(name)
S0.3 D SubjectCreated = mcp.servers.created
S0.4 D SubjectDeleted = mcp.servers.deleted
S0.5 D MCPDeletedEvent{name}
S0.6 D MCPToolRequest{session_id?,tool,args}
S0.7 D MCPToolReply{result?,error?}
S0.8 D MCPToolListReply{tools,error?}
S0.9 D DecodeToolReply(bytes)
S0.10 D DecodeListToolsReply(bytes)
S0.11 - Manager
S0.12 - New(ctx,db,messenger,tracker)
S0.13 - StartWorker (idempotent)
S0.14 - StopWorker(name)
S0.15 - StopAll()
S0.16 - ActiveWorkers()
S0.17 - WatchEvents(ctx)
S0.18 D pool per registered server on every node; caller needs no owner knowledge
S0.19 - session persistence and eviction (in code, implied by "persistent")
S0.20 - pool behaviour (mcppool.go)
S0.21 D bus contract (libbus)
S1.1 C DefaultIdleTimeout 30 min, DefaultCleanupInterval 5 min, DefaultMaxErrorCount 10
S1.2 C ConnectionKey{BackendID,SessionID} + String()
S1.3 C ConnectionState active / idle / closed
S1.4 C ConnectionMetadata Connection, CreatedAt, LastUsedAt, RequestCount, ErrorCount, State
S1.5 C PoolConfig{IdleTimeout,CleanupInterval,MaxErrorCount}
S1.6 C NewSessionConnectionPool(ctx) / NewSessionConnectionPoolWithConfig(ctx,cfg)
S1.7 C sweep
S1.8 C Get(backend,session)
S1.9 C Set
S1.10 C Delete
S1.11 C RecordError
S1.12 C GetMetadata, List, Size
S1.13 C Stop()
S1.14 C Launcher, New(ctx,cfg)
S1.15 C GetOrLaunch(l,id)
S1.16 C GetOrLaunchForSession(l,id,session)
S1.17 C ServerIDs()
S1.18 C Close()
S1.19 C launch diagnostics (log_helpers)
S2.1 A ParseError -32700, InvalidRequest -32600, MethodNotFound -32601, InvalidParams -32602, InternalError -32603
S2.2 A ToolNameDelimiter "__"
S2.3 A PrefixTool(agent,tool)
S2.4 A ParsePrefixedTool
S2.5 A AgentClient interface: Name, Initialize, RefreshTools, Tools, CallTool, IsInitialized, ServerInfo
S2.6 A Capabilities, ToolsCapability{listChanged}, ResourcesCapability{subscribe,listChanged}, PromptsCapability{listChanged}
S2.7 A Client/NewClient(name,endpoint) (HTTP): Name, Endpoint, Initialize, IsInitialized, RefreshTools, Tools, CallTool, ServerInfo, Ping
S2.8 C StdioClient/NewStdioClient(name,containerID,docker): Connect, Initialize, RefreshTools, Tools, CallTool, IsInitialized, Name, ServerInfo, Close
S2.9 A ProcessClient/NewProcessClient(name,command,workDir,env) + same methods, Close
S2.10 A Initialize (all clients)
S2.11 A RefreshTools (clients)
S2.12 A CallTool (clients)
S2.13 A ClientInfo{name,version}, ServerInfo{name,version}
S2.14 A Content{type,text}, NewTextContent
S2.15 A Error{code,message,data}, Request{jsonrpc,id,method,params}, Response{jsonrpc,id,result,error}
S2.16 A NewErrorResponse, NewSuccessResponse
S2.17 A Tool{name,title,description,inputSchema}
S2.18 A InputSchemaObject, Property
S2.19 A ToolCallParams, ToolCallResult{content,isError}, ToolsListResult{tools,nextCursor}
S2.20 A InitializeParams, InitializeResult
S2.21 A Transport http / stdio / sse
S2.22 A MCPServerConfig (Name, Transport, Endpoint, ContainerID, External, LocalProcess, SSH, Command, WorkDir, Env, SSHHost, SSHUser, SSHPort, SSHIdentityFile)
S2.23 C SSH transport
S2.24 C MCPServerStatus (name, transport, endpoint, containerId, initialized, toolCount, tools, external, localProcess, ssh, sshHost)
S2.25 A Gateway/NewGateway, ServerInfo, Router, Sessions, SetLogger (nil ignored), SetDockerClient
S2.26 A RegisterMCPServer
S2.27 A UnregisterMCPServer
S2.28 A RegisterAgent(name,uses), UnregisterAgent, GetAgentAllowedServers
S2.29 A HandleInitialize
S2.30 A HandleToolsList, HandleToolsListForAgent
S2.31 A HandleToolsCall, HandleToolsCallForAgent
S2.32 C RefreshAllTools
S2.33 C Status()
S2.34 A Handler/NewHandler/ServeHTTP at /mcp
S2.35 A Router/NewRouter: AddClient, RemoveClient, GetClient, Clients, RefreshTools, AggregatedTools, RouteToolCall
S2.36 A SSEServer/NewSSEServer: ServeHTTP (/sse), HandleMessage (/message), Broadcast, SessionCount
S2.37 A SSESession ID, Writer, Flusher, Done, MessageID
S2.38 A Session{ID,ClientInfo,Initialized,CreatedAt,LastSeen}, SessionManager/NewSessionManager: Create, Get, Touch, Delete, List, Cleanup(maxAge)→count
S3.1 C InitialBackoff 30 s, MaxBackoff 30 min, BackoffMultiplier 2.0
S3.2 C UnreachableThreshold 3
S3.3 C DefaultRemoteTimeout 30 (s)
S3.4 C RestartGracePeriod 200 ms
S3.5 C Option, WithAuthRequiredHook(fn)
S3.6 C NewService(def,opts…), BaseService
S3.7 C Start
S3.8 C error classes
S3.9 C Stop
S3.10 C Restart
S3.11 C CheckHealth, GetHealthCheckInterval 30 s
S3.12 C ConfigurationChanged(new)
S3.13 C UpdateConfiguration
S3.14 C ValidateConfiguration
S3.15 C GetConfiguration, GetServiceType ("mcpserver"), GetMCPClient, IsClientReady
S3.16 C GetServiceData
S3.17 C GetConsecutiveFailures, GetLastAttempt, GetNextRetryAfter (null when none)
S3.18 C IsRunning (running or connected), IsHealthy (healthy and running), IsUnreachable
S3.19 C GetLogContext, LogDebug, LogInfo, LogWarn, LogError
S3.20 C states used
S4.1 A ProtocolVersion "2025-06-18"
S4.2 A Transport Send/Notify/(Done)/Close
S4.3 A StdioTransport/NewStdioTransport(ctx,cmd,args,env): Send, Notify, Done, Close
S4.4 A HTTPTransport/NewHTTPTransport(url): Send, Close, (Notify)
S4.5 C LifecycleState initializing, connected, degraded, failed + String()
S4.6 C ServerCapabilities{Tools,Resources,Prompts}
S4.7 C ServerProxy Name, State, Caps, Tools + Close
S4.8 C McpToolMeta{name,description,inputSchema}
S4.9 C Registry/NewRegistry, lock model
S4.10 C Connect(ctx,name,command,args,env)
S4.11 C watcher + degrade
S4.12 C reconnect
S4.13 A CallTool(fullName,args)→(text,isError,err)
S4.14 C SetTimeout(name,seconds)
S4.15 A Tools()
S4.16 C Servers()
S4.17 C Shutdown()
S4.18 A BridgeAll(reg)
S4.19 C DriftKind none/added/removed/reordered/structured, DriftReport{Kind,Message}, CompareToolLists(before,after)
S4.20 C MCPChange{Kind,ToolName} tool_added/tool_removed/tool_schema_changed, PendingSchemaChanges(old)
check:A1 A server definitions: one validated schema for all transports
check:A2 - durable store + CRUD by id/name, paged load of all rows
check:A3 A register/unregister/connect with unique names, failed entries visible and retryable
check:A4 - idempotent start/replace/stop/stop-all, active list
check:A5 C state machine unknown/starting/running/connected/stopping/stopped/disconnected/degraded/failed/unreachable/auth_required + suspended, checked transitions
check:A6 C start, stop, restart with 200 ms grace, coalesced
check:A7 C configuration-changed rules and live update
check:A8 - desired-vs-actual reconciler with resync; never delete on failed read
check:A9 A capabilities, server info, init status per server; immutable snapshots and accessors; commit-after-IO concurrency rule
check:A10 - config file, validate/plan/apply/hot reload, import from client configs
check:A11 A lazy launch with startup timeout and launch diagnostics
check:A12 A clean shutdown with deadlines, no leaked children
check:A13 - replica sets, autoscale, scale to zero
check:A14 - session-scoped temporary servers
check:B1 A local process stdio, graceful ladder, process group, stderr tail
check:B2 C Docker container attach
check:B3 C SSH stdio
check:B4 A streamable HTTP client, sessions, SSE bodies, 404 re-init; initialize/call on every transport
check:B5 A 2024-11-05 SSE client and server
check:B6 A plain JSON-RPC POST fallback
check:B7 A streamable HTTP server, GET stream with replay, DELETE
check:B8 B version negotiation over all five revisions [S2.20 S4.1]; 2026-07-28 both directions: discover, headers, MRTR, ttl/scope, subscriptions/listen, per-peer era bridge incl. handshake client ↔ MRTR server
check:B9 A JSON-RPC types, codes, one transport and one client interface
check:B10 A stdio front end for local clients
check:B11 - OpenAPI → tools
check:B12 A byte-lossless relay of args/results/unknown fields
check:B13 A full content, structured output, progress, cancellation, logging, completion, sampling, elicitation, roots relays
check:C1 C pool keyed (backend, session), key string, metadata, states
check:C2 C idle timeout, cleanup interval, max errors, custom config
check:C3 C get/set/delete/list/size/metadata/record-error/stop
check:C4 C shared, per-session or per-principal isolation per server
check:C5 A client session manager create/get/touch/delete/list/cleanup, cap; session id returned to the client
check:C6 C persistent upstream session across evictions where the server allows, honest loss signal otherwise
check:C7 C one reconnect then retry only if not executed
check:C8 C busy entries never evicted; token-expiry margin, deferred close
check:C9 - sessions survive node loss / any node serves any session
check:D1 A server__tool and mcp__server__tool names, parse, prefix, collision-proof table, 64-char budget
check:D2 A router add/remove/get/clients/refresh/aggregate/route
check:D3 A aggregated list, stable order, paging
check:D4 A call routing and error shape per era
check:D5 A resources, templates, prompts aggregated with reversible URIs/names
check:D6 - tool groups/virtual servers, renames, overrides, own endpoints
check:D7 - equivalent-server families
check:D8 - meta-tools, search, code mode
check:D9 A in-process bridge API
check:D10 - hidden injected arguments
check:D11 A routed mode: one endpoint per backend
check:D12 A schema helpers for synthetic tools
check:E1 - agent/client → servers map with default-allow compatibility
check:E2 - tool-level allow/deny lists, server whitelist
check:E3 - same policy on every path (SSE, groups, code mode, resources, prompts) bound to authenticated identity
check:E4 - allow / require approval / block, destructive defaults
check:E5 - rate limits and per-session budgets, circuit breaker
check:E6 - flow labels / guards
check:E7 - dry-run preview of a policy change
check:F1 C 30 s probe (ping/discover), run for real, plus passive outcomes
check:F2 C backoff 30 s ×2 ≤ 30 min, jitter, fair scheduler
check:F3 C unreachable after 3; transient/config/auth classification
check:F4 C failure counters, last attempt, next retry
check:F5 C stdio death → degraded, tools withdrawn, supervised respawn
check:F6 - per-server and per-tool timeouts, cancel sent
check:F7 C list failure cooldown
check:F8 C edge-triggered events, recovery events
check:F9 C readiness wait for HTTP servers 500 ms/30 s
check:G1 C CompareToolLists and kinds over tool metadata
check:G2 C PendingSchemaChanges
check:G3 C refresh on list_changed/ttl/refresh-all
check:G4 C pins with approve/block, poisoning scan
check:G5 C freeze tools per client turn/epoch
check:H1 - execute/list-tools subjects and JSON envelopes
check:H2 - created/deleted events, watch on every node
check:H3 - Messenger interface, NATS + in-memory (+ SQL), shared conformance suite
check:H4 - pool per server per node, load balancing **with** ownership lease and owner-addressed subject
check:H5 - deadline, cancel, progress, large-payload chunking, error kinds over the bus
check:H6 - ordered, versioned, resynced registry events
check:H7 - node death: fast failure, exactly-once-or-reported outcome, drain on shutdown
check:I1 - auth_required detection with hook before event, synthetic login tool
check:I2 - static bearer/header/env secrets
check:I3 - downstream OAuth 2.1 broker
check:I4 - token forwarding and RFC 8693 exchange
check:I5 - gateway’s own auth: keys, JWT/OIDC resource server, PRM
check:I6 - Host/Origin checks, TLS, HMAC
check:I7 - vault and redaction everywhere
check:J1 A server status JSON (seed keys plus state, health, failures, retry, pool, replicas)
check:J2 A health, ready, close/drain
check:J3 - REST: servers, sessions, tools, pools, policies, drift, limits, traces, OAuth
check:J4 - CLI for all of it with JSON output
check:J5 - web UI: topology across **nodes**, sessions, tools, access editor, drift review, logs, traces, metrics
check:J6 - per-server restart/reconnect/login actions
check:K1 A per-server structured logger, settable
check:K2 - activity tracker seam on every operation
check:K3 - state/health event stream, follow
check:K4 - OTel traces with _meta propagation across the bus, gen_ai attributes
check:K5 - Prometheus metrics, token/usage accounting, optimize findings
check:K6 - audit log of calls and denials
check:L1 - one test per row id above
check:L2 - official conformance suite, all five versions, no "fleet-less" excuses (run it with a fleet behind us)
check:L3 - chaos suite: kill child, kill node, drop bus, slow/huge replies, clock jumps
check:L4 - scenario files runnable by users
fault:F01 A stdio process dead at start (exit, ENOENT, EACCES)
fault:F02 A process dies before the request is written
fault:F03 A process dies during a call
fault:F04 A process dies after the answer
fault:F05 A process hangs on one call
fault:F06 A stdout flood without newline
fault:F07 A garbage, non-JSON, log lines between messages
fault:F08 A half a line, then EOF
fault:F09 A huge message (10-64 MiB)
fault:F10 A wrong id
fault:F11 A duplicate id
fault:F12 A unsolicited answers, requests, notifications
fault:F13 A upstream stops reading stdin
fault:F14 A stderr flood, ANSI, secrets in stderr
fault:F15 A process ignores SIGTERM / leaves grandchildren
fault:F16 A slow reading client
fault:F17 A client vanishes in mid-call
fault:F18 A client never reads its SSE stream
fault:F19 A 10 000 sessions opened and abandoned
fault:F20 C upstream 401 / 403
fault:F21 - two nodes refresh one rotating token
fault:F22 A upstream 404 session lost
fault:F23 A 429 / 5xx
fault:F24 A connection reset, lost reply
fault:F25 A slowloris upstream, endless SSE comments
fault:F26 C DNS fails, DNS flaps
fault:F27 C TLS expired, wrong host, untrusted, cut in handshake
fault:F28 - NATS down, restarted
fault:F29 - NATS partition of one node; slow consumer
fault:F30 - node kill -9 in mid-call
fault:F31 - node SIGSTOP 30 s, then SIGCONT
fault:F32 - event loop blocked 5 s
fault:F33 - rolling restart of all nodes under load
fault:F34 C disk full on SQLite
fault:F35 C database corrupt or cut
fault:F36 - crash between two writes of one change
fault:F37 A bad config on hot reload
fault:F38 C clock jumps +-1 h
fault:F39 C fd exhaustion
fault:F40 C memory pressure
fault:F41 C fork bomb or PID limit in a child
fault:F42 A uncaught exception, unhandled rejection in the gateway
fault:F43 - the leading server of a NATS cluster crashes: calls that need a lease fail for at most 3 s, others never
fault:F44 - the leading server of a NATS cluster crashes and its disk is lost: the same
goal:G1 - every attack of section 3 held with every feature on; + 10^6 fuzzed messages (fast-check + mutation of the corpus) per release: 0 crashes, 0 hangs > 1 s
goal:G2 - 42/42 fault rows green, each >= 20 repetitions; mixed nemesis (kill + pause + partition + NATS restart) 60 min, 3 nodes: ledger rules (a)-(f) 100%
goal:G3 - 0 lost acknowledged configuration writes over 500 kill -9 at random instants, incl. 40 fsync points
goal:G4 - 0 duplicate executions of non-safe tools in 10^6 calls under faults
goal:G5 - owner dies: in-flight calls answered <= 2.0 s max (peers: full timeout; raw NATS 5 s+); next call on the session OK <= 3.0 s p99
goal:G6 C stdio crash: error to caller <= 100 ms p99, server back <= 1.5 s p99 for the first crash (toolhive notes ~48 s)
goal:G7 A 0 leaked processes after 1 000 start/kill cycles (SIGTERM, SIGKILL of server; 100 x kill -9 of gateway); gone <= 1 s ( 172 spawn+kill cycles/s are possible here)
goal:G8 - rolling restart of 3 nodes, 20 rounds, 200 calls/s: 0 failed, 0 duplicated
goal:G9 A 10 000 open sessions with SSE on one node: <= 32 KiB RSS each ( floor 14.1 KiB), p99 of a call <= 3x the empty-node p99
goal:G10 A 100 000 sessions opened and abandoned over 10 min: heap after GC <= base + 32 MiB, 0 timers, 0 children, fds back to base +- 5
goal:G11 C memory: 10^7 calls (or 24 h) with 1% faults: heap slope <= 1 MiB/h by linear fit, RSS <= 1.5x the first hour
goal:G12 C one bad neighbour of each X-kind: p99 of the other servers’ calls <= 2x baseline
goal:G13 - 100 servers down at once: start-up ready <= 2 s, /mcp tools/list of the healthy <= 200 ms
goal:G14 - NATS outage of 60 s: calls that need no lease 100 % OK; registries converge <= 3 s after return; 0 events needed
goal:G16 A slow readers: 1 000 stalled streams <= 64 MiB in all; cut <= 35 s
goal:G17 C config reload of 1 in 100 servers: 0 dropped calls on the other 99, <= 500 ms
goal:G18 - secrets: 0 canary hits over logs, metrics, traces, API, UI, bus, DB at rest
goal:G19 - 0 tripwire hits by SSRF over >= 60 address spellings and 3 rebinding DNS answers
goal:G20 A event-loop delay p99.9 <= 50 ms under 4x overload; excess answered 429/503 <= 20 ms, accepted calls’ p99 <= 2x
proto:C1 - private never served across authorization contexts (another token = another cache)
proto:C2 - public may be shared, only within one configured server
proto:C3 - absent/invalid hint = 0/private (SEP-2549’s "defaults to public" is not in the final text); negative ttl = 0; clamp the maximum
proto:C4 - key = method + result-affecting params (uri, cursor); pages cached separately, same scope on all pages of a list
proto:C5 - nothing cached from a request carrying inputResponses/requestState, nor any input_required result
proto:C6 - a matching notification invalidates at once, also while a fill is in flight
proto:C7 - TTL is not a polling interval; polling needs jitter and backoff; stale may be served on upstream failure
proto:C8 - access control is checked on every hit, not inherited from the cache
proto:C9 - the answer states the remaining, not the original, TTL and never widens the scope; policy-filtered lists are private
proto:H1 - body is the source of truth: header/body mismatch or a missing required header = 400/-32020
proto:H2 - names case-insensitive, values case-sensitive, OWS trimmed, sentinel decoded before comparing, bad base64 refused
proto:H3 - unknown Mcp-Param-* forwarded
proto:H4 - policy on headers only when MCP-Protocol-Version says they are validated, else refuse
proto:H5 - header values are never authority for tenant or privilege
proto:H6 - a client of upstreams: emits the headers, omits null/absent params, drops tools with invalid x-mcp-header (only those), refreshes once on -32020
proto:H7 - oversize headers refused before decoding
proto:H8 - unknown method 404/-32601; unsupported version 400/-32022 with supported+requested; missing _meta 400/-32602; GET/DELETE modern 405; ids echoed
proto:H9 - SSE: X-Accel-Buffering: no, flush at once, comment keepalive, no server requests on modern streams, no body buffering
proto:O1 - every request: invalid Origin 403; Host checked on loopback; bind 127.0.0.1 by default; CORS preflight allows the Mcp-* headers
proto:O2 - admin and stdio-spawning APIs need their own authorization; spawned commands logged, sandboxable
proto:T1 - accept only tokens whose audience is this gateway (per endpoint)
proto:T2 - never forward the client’s token upstream (test: it appears in no upstream request, log or error)
proto:T3 - upstream credentials are separate and stored per (user, server, issuer)
proto:T4 - PRM at the path-inserted well-known URI of each MCP endpoint and in WWW-Authenticate; resource = that endpoint’s URL; no offline_access in it
proto:T5 - 401 for missing/invalid, 403 insufficient_scope naming all scopes needed at once; hierarchies respected
proto:T6 - as client: PRM first, both AS discovery documents in order, issuer equal to the one asked for; PKCE S256 required by metadata, else refuse; resource in authorization and token requests, exactly as published in PRM (the suite’s client fails here by adding "/")
proto:T7 - iss per RFC 9207 table, byte compare, before the code is sent; state single-use, bound to user, <= 10 min
proto:T8 - credentials keyed by issuer; re-register when the AS changes; CIMD first (HTTPS URL with a path, document served by us, client_id equal to its URL), then pre-registered priority as configured, DCR last with application_type
proto:T9 - step-up: union of scopes, bounded retries
proto:T10 - SSRF: HTTPS only (loopback opt-in), private/link-local blocked after DNS, each redirect hop re-checked; authorization URLs only http(s), never opened through a shell
proto:D1 - with one static upstream client id: per-user, per-client consent *before* redirecting
proto:D2 - page names client, scopes, redirect URI; CSRF token; frame-ancestors ’none’; __Host- cookie bound to client_id
proto:D3 - exact redirect URI match
proto:D4 - state cookie set only after consent
proto:D5 - URL-mode elicitation passes untouched, never fetched by us; when the gateway itself elicits, the user who opens the URL must be the user who called
proto:S1 - session ids >= 128 random bits, bound <user>:<session>, checked on every POST/GET/DELETE and on **every node**; a session is never authentication (test: other token + stolen id = 404/403)
proto:S2 - events and replays reach only the owner; queue subjects carry the principal
proto:S3 - sealed requestState/cursor/taskId: AEAD, TTL, principal, method+params digest, key rotation; tampered, expired, foreign or reused = -32602 and nothing runs
proto:S4 - never send an input request the client did not declare: -32021; modes too (form-only client gets no url)
proto:S5 - capabilities mirrored upstream exactly: not more, not less
proto:S6 - with shared upstream credentials only the gateway can bind rounds to the user: binding is mandatory there
proto:S7 - no $ref fetching; bounds on schema depth/size before validating; icons fetched by nobody here
`;

export interface Requirement {
  readonly id: string;
  readonly capability: string;
  readonly title: string;
}

export const REQUIREMENTS: readonly Requirement[] = LINES.trim()
  .split('\n')
  .map((line) => {
    const [id = '', capability = '', ...words] = line.split(' ');
    return { id, capability, title: words.join(' ') };
  });
