import { type JsonSchema, typesOf } from '../../src/config/schema-json.ts';

const INTRODUCTION = `# Configuration

<!-- Generated from scripts/schema/schema.ts by \`npm run generate\`. Do not edit. -->

Trunkline reads the files of Claude Code and Desktop, Cursor, Windsurf, Gemini CLI, VS Code, Codex, opencode, Zed, Cline, Roo,
Goose, Continue, Amp and LibreChat, as JSON (with comments), YAML or TOML. The same file may have Trunkline's own keys. Without a
file argument \`trunkline\` uses the nearest of \`trunkline.{yaml,yml,json,jsonc,toml}\`,
\`.mcp.json\`, \`.vscode/mcp.json\` and \`.cursor/mcp.json\`, from the current folder up to the repository root or home folder; else \`~/.claude.json\`, if it has servers for this folder.

\`\`\`json
{
  "$schema": "https://unpkg.com/trunkline/schema/config.schema.json",
  "mcpServers": {
    "files": { "command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "."] },
    "search": { "url": "https://example.com/mcp", "headers": { "Authorization": "Bearer \${SEARCH_TOKEN}" } }
  }
}
\`\`\`

An unknown key is an error in a Trunkline file (one with Trunkline keys, a Trunkline \`$schema\` or the name \`trunkline.*\`), and a
warning in a client's file. [config-errors.md](config-errors.md) lists the codes of all errors.

## References

Allowed in \`command\`, \`args\`, \`env\`, \`url\`, \`headers\`, \`cwd\`, \`envFile\`, certificate paths, agents' keys, \`auth\`, \`docker\`, \`ssh\`, \`registry\`,
\`control.token\`, \`data.dir\`, \`cluster\`, \`metrics\` and \`telemetry\`:

| reference | value |
|---|---|
| \`\${NAME}\`, \`\${env:NAME}\` | the environment variable; if it is not set, the server that needs it is misconfigured |
| \`\${NAME:-default}\` | the same, or the default if it is unset or empty |
| \`\${input:id}\` | \`TRUNKLINE_INPUT_<ID>\` (upper case, other characters as \`_\`), otherwise a prompt on a terminal |
| \`\${secret:NAME}\` | what \`trunkline secret set NAME\` keeps ([credentials.md](credentials.md)); not in \`cluster\`, \`data.dir\` and \`tls\` |
| \`\${file:path}\` | the text of the file without its final line break; the path is relative to the configuration file |
| \`\${workspaceFolder}\`, \`\${userHome}\` | the folder that the file belongs to; your home folder |
| \`\${workspaceFolderBasename}\`, \`\${pathSeparator}\` | the last part of that folder; \`/\` |
| \`$\${\` | a literal \`\${\` |
| \`$NAME\` | as \`\${NAME}\`, only in \`env\` of Gemini's files |
| \`{env:NAME}\`, \`{file:path}\` | as with \`$\`, only in opencode's files |
| \`\${{ secrets.NAME }}\` | as \`\${NAME}\`, only in Continue's files |
| \`{{NAME}}\` | as \`\${NAME}\`, only in LibreChat's files |

Trunkline expands a value once, not the references in the result. Relative commands (\`./x\`) and \`cwd\` start at the folder
of the file, or, for files in \`.vscode\`, \`.cursor\` and the like, at its parent.

## Environment of local servers

A local server gets:

- the variables of \`env\`, and those that \`inheritEnv\` names;
- PATH, HOME, USER, SHELL, LANG, LC_*, TZ, TMPDIR, XDG_*, SSH_AUTH_SOCK and DOCKER_HOST of the gateway;
- for \`npx\` and \`uvx\` behind a proxy: NODE_EXTRA_CA_CERTS, SSL_CERT_FILE, SSL_CERT_DIR, REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE,
  and, in any letter case, *_PROXY, UV_*, PIP_* and npm_config_*. For \`npx\` and \`npm\` the gateway sets
  npm_config_fetch_retry_mintimeout and npm_config_fetch_retry_maxtimeout to 10000 ms, unless its environment has one of them.

It does not get names with TOKEN, SECRET, PASSWORD or _auth, addresses with a login (\`https://user:password@…\`) in UV_, PIP_ and
npm_config_, and what npm sets for the command that it runs (npm_config_package, …prefix). To pass one of these, name it:
\`"inheritEnv": ["PIP_INDEX_URL"]\`.

## Timeouts in files of clients

\`timeout\` means milliseconds in files of Claude, Gemini, VS Code, Cursor, Windsurf, opencode, Amp and LibreChat, and seconds in
those of Cline, Roo, Goose, Continue and muster. In the file of an unknown client a value below 1000 means seconds, with a warning.
\`timeoutMs\` is always milliseconds.

## Processes

| server | processes | reason |
|---|---|---|
| local, stateful revision (most servers today) | one per client session that calls it | its state belongs to one client, and its requests do not name the call they belong to |
| local, 2026-07-28 | one | each request is self-contained |
| remote | none | one session at the server per client session, if the server has sessions |

\`isolation\` changes this: \`"shared"\` runs one process for all clients, for servers that keep no state for a client and send it no
requests; \`"principal"\` runs one per agent key. \`"replicas": 3\` divides the calls of a shared server among three processes. Listing
tools starts no process for a session.

The gateway closes the process or HTTP session of a client session or caller after \`pool.idleTimeoutMs\` (30 minutes) without use, and
a process 5 minutes after the stream of its client has ended. A call in flight, a running task, an open input request and a resource
subscription count as use. The next request opens the process or session again; an HTTP session continues if its server still has it.
The gateway notifies a client whose state ended with a process. It replaces a connection after \`pool.maxErrors\` failed requests in a
row.

A server runs at most 64 processes (\`limits.maxProcesses\`), all servers together 256 (\`maxProcesses\`). At the limit the gateway ends
the process that was idle longest, first those of clients whose stream has ended; \`pool.sleepAfterMs\` protects recently used ones.
If all are in use, a call waits up to 2 s for one that becomes idle, and is then refused (\`OVERLOADED\`, with \`retryAfterMs\`).
\`trunkline status\` shows \`16 of 16 processes\`.
`;

/** docs/config.md as text: the introduction above and one table per level of the schema. */
export function docsText(schema: JsonSchema): string {
  const server = schema.$defs!['server']!;
  const { $defs: _, ...top } = schema;
  const parts = [INTRODUCTION, '## Keys at the top\n', table(top, '')];
  parts.push('## Keys of a server\n', table(server, ''));
  return `${parts.join('\n').trimEnd()}\n`;
}

function table(schema: JsonSchema, prefix: string): string {
  return ['| key | type | default | meaning |', '|---|---|---|---|', ...rows(schema, prefix), ''].join('\n');
}

function rows(schema: JsonSchema, prefix: string): string[] {
  return Object.entries(schema.properties ?? {}).flatMap(([key, property]) => {
    const name = `${prefix}${key}`;
    const fallback = property.default === undefined ? '' : `\`${JSON.stringify(property.default)}\``;
    const row = `| \`${name}\` | ${typeText(property)} | ${fallback} | ${property.description ?? ''} |`;
    return [row, ...innerRows(property, name)];
  });
}

function innerRows(schema: JsonSchema, name: string): string[] {
  if (schema.anyOf !== undefined) return schema.anyOf.flatMap((branch) => innerRows(branch, name));
  if (schema.type === 'array' && schema.items !== undefined) return rows(schema.items, `${name}[].`);
  const values = schema.additionalProperties;
  if (schema.properties === undefined && values)
    return values.$ref === undefined ? rows(values, `${name}.{name}.`) : [];
  return rows(schema, `${name}.`);
}

function typeText(schema: JsonSchema): string {
  if (schema.anyOf !== undefined) return [...new Set(schema.anyOf.map(typeText))].join(' or ');
  if (schema.enum !== undefined) return schema.enum.map((value) => `\`${value}\``).join(', ');
  const types = typesOf(schema);
  if (types.length > 1) return types.map((type) => typeText({ type })).join(', ');
  if (schema.type === 'array') return `list of ${typeText(schema.items ?? {})}`;
  if (schema.type === 'object') {
    const values = schema.additionalProperties;
    if (schema.properties === undefined && values)
      return values.$ref ? 'servers by name' : `map of ${typeText(values)}`;
    return 'map';
  }
  if (schema.type === 'integer') return `whole number, ${schema.minimum} to ${schema.maximum}`;
  return schema.type === 'string' ? 'text' : (types[0] ?? 'anything');
}
