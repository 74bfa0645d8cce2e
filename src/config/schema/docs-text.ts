import { type JsonSchema, typesOf } from '../schema-json.ts';

const INTRODUCTION = `# Configuration

<!-- Generated from src/config/schema/schema.ts by \`npm run generate\`. Do not edit. -->

Trunkline reads the files you already have: those of Claude Code and Desktop, Cursor, Windsurf, Gemini CLI, VS Code,
Codex, opencode, Zed, Cline, Roo, Goose and Continue, as JSON (with comments), YAML or TOML. Keys of its own may stand
in the same file. \`trunkline\` without a file takes the nearest of \`trunkline.{yaml,yml,json,jsonc,toml}\`, \`.mcp.json\`,
\`.vscode/mcp.json\` and \`.cursor/mcp.json\`, from the current folder upwards to the repository root or home.

\`\`\`json
{
  "$schema": "https://unpkg.com/trunkline/schema/config.schema.json",
  "mcpServers": {
    "files": { "command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "."] },
    "search": { "url": "https://example.com/mcp", "headers": { "Authorization": "Bearer \${SEARCH_TOKEN}" } }
  }
}
\`\`\`

A file that uses our keys, a \`$schema\` of ours, or is called \`trunkline.*\` is ours: an unknown key in it is an error.
In a client's file it is a warning. Every error has a code; they are listed in [config-errors.md](config-errors.md).

## References

In \`command\`, \`args\`, \`env\`, \`url\`, \`headers\`, \`cwd\`, \`envFile\`, certificate paths, agents' keys and \`data.dir\`:

| written | stands for |
|---|---|
| \`\${NAME}\`, \`\${env:NAME}\` | the environment variable; when it is not set, the server that needs it is misconfigured |
| \`\${NAME:-default}\` | the same, or the default when it is unset or empty |
| \`\${input:id}\` | asked on a terminal, else \`TRUNKLINE_INPUT_<ID>\` (upper case, other characters as \`_\`) |
| \`\${file:path}\` | the text of the file, without the line break at its end; relative to the configuration file |
| \`\${workspaceFolder}\`, \`\${userHome}\` | the folder the file belongs to; your home |
| \`\${workspaceFolderBasename}\`, \`\${pathSeparator}\` | its last part; \`/\` |
| \`$\${\` | a literal \`\${\` |
| \`$NAME\` | as \`\${NAME}\`, only in \`env\` of Gemini's files |
| \`{env:NAME}\`, \`{file:path}\` | as with \`$\`, only in opencode's files |
| \`\${{ secrets.NAME }}\` | as \`\${NAME}\`, only in Continue's files |
| \`{{NAME}}\` | as \`\${NAME}\`, only in LibreChat's files |

They are expanded once; what comes out is never expanded again. Relative commands (\`./x\`) and \`cwd\` start from the
folder of the file; for files in \`.vscode\`, \`.cursor\` and the like from the folder around that.

A local server gets the variables that \`env\` declares, those that \`inheritEnv\` names, and these of the gateway's own: PATH,
HOME, USER, SHELL, LANG, LC_*, TZ, TMPDIR, XDG_*, SSH_AUTH_SOCK, DOCKER_HOST, and, so that \`npx\` and \`uvx\` work behind a
company proxy, *_PROXY, NODE_EXTRA_CA_CERTS, SSL_CERT_FILE, SSL_CERT_DIR, REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE, UV_*, PIP_* and
npm_config_* in any case. Left out are names with TOKEN, SECRET, PASSWORD or _auth, UV_, PIP_ and npm_config_ addresses that hold
a login (\`https://user:password@…\`), and what npm sets for the command that it runs itself (npm_config_package, …prefix).
To hand one of those on, name it: \`"inheritEnv": ["PIP_INDEX_URL"]\`.
For \`npx\` and \`npm\` the gateway sets npm_config_fetch_retry_mintimeout and npm_config_fetch_retry_maxtimeout to 10000,
unless it has one of them.

## Timeouts of clients' files

\`timeout\` means milliseconds in the files of Claude, Gemini, VS Code, Cursor, Windsurf and opencode, and seconds in those of
Cline, Roo, Goose, Continue and muster (of Amp and LibreChat: milliseconds). In a file whose client cannot be told, a value below 1000 is read as seconds,
with a warning. \`timeoutMs\` leaves no doubt.

## Connections that end by themselves

What one session or caller has at a server (a process, or a session over HTTP) is closed when it was not used for
\`pool.idleTimeoutMs\`; the next request opens it again. A call in flight, a task that runs, a question of the server's and a subscribed
resource count as use. An HTTP session is gone on with where its server still knows it; a client whose state went with
a process is told so. The process of a client whose stream has ended is closed after five minutes already.

At the limits of processes (\`maxProcesses\`, \`limits.maxProcesses\`) the longest idle process is ended for a new one at once,
first those of clients whose stream has ended; \`pool.sleepAfterMs\` keeps those that were used lately. Where all are in use, the
call is refused (\`OVERLOADED\`) and says when to try again. \`trunkline status\` shows \`16 of 16 processes\`. After
\`pool.maxErrors\` failed requests in a row a connection is replaced, whoever uses it.
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
