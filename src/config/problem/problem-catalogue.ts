interface ProblemEntry {
  /** One line for docs/config-errors.md; a test compares both ways. */
  readonly meaning: string;
  /** The fix, unless the problem has a more precise one. */
  readonly fix: string;
}

function entry(meaning: string, fix: string): ProblemEntry {
  return { meaning, fix };
}

/** All problems of a configuration. Codes are stable: scripts and people search for them. */
export const PROBLEMS = {
  TL1001: entry('The configuration file does not exist.', 'check the path, or leave it out to use the nearest file'),
  TL1002: entry('The file cannot be read, or is not a regular file.', 'name a readable file'),
  TL1003: entry('The file is larger than a configuration can be.', 'check that this is the right file'),
  TL1004: entry('The file is not UTF-8 text.', 'save it as UTF-8'),
  TL1005: entry('The document is empty, or is not a map of keys.', 'begin with {"mcpServers": {}}'),
  TL1101: entry(
    'The file is not well-formed JSON, YAML or TOML; or a command line has an open quote, a shell operator, or an unsupported option.',
    'correct the syntax at the marked place',
  ),
  TL1102: entry('The document is nested too deeply or has too many parts.', 'no configuration needs that: simplify it'),
  TL1103: entry('A map has the same key twice.', 'keep one of them'),
  TL1104: entry('A YAML tag, which could name code to run, is not accepted.', 'remove the tag'),
  TL1105: entry('A YAML alias is unknown, refers to itself, or expands to too much.', 'write the values out'),
  TL1201: entry('A reference that starts with `${` is malformed.', 'write ${NAME}, or $${ for a literal ${'),
  TL1202: entry(
    'The kind of a `${kind:…}` reference is unknown.',
    'use ${NAME}, ${NAME:-default}, ${env:NAME}, ${input:id}, ${file:path} or ${secret:NAME}',
  ),
  TL1203: entry('An environment variable is not set and has no default.', 'set the variable'),
  TL1204: entry('The value of an `${input:…}` is not known.', 'set TRUNKLINE_INPUT_<ID>'),
  TL1205: entry('A file named by `${file:…}` or `envFile` cannot be read.', 'check the path and its permissions'),
  TL1206: entry('A line of an `envFile` is not NAME=value.', 'write NAME=value'),
  TL1207: entry(
    'An expanded value has characters that are not allowed there.',
    'remove line breaks and NUL characters',
  ),
  TL1208: entry(
    'The secret of a `${secret:…}` is not stored, cannot be opened, or stands where the store itself is named.',
    'trunkline secret set NAME',
  ),
  TL1301: entry('The key is unknown: an error in files of Trunkline, a warning in those of clients.', 'remove the key'),
  TL1302: entry('A value has the wrong type.', 'write a value of the type named'),
  TL1303: entry('A value is out of range or not one of the allowed values.', 'write a value that is possible'),
  TL1304: entry('A required key is missing.', 'add the key'),
  TL1305: entry('The key is known but has no effect in this version yet.', 'remove the key'),
  TL1306: entry('Two keys contradict each other.', 'keep one of them'),
  TL1307: entry('The key has no effect at this place (a warning).', 'remove the key'),
  TL1308: entry('A time without a unit was read as the one named (a warning).', 'write timeoutMs instead'),
  TL1309: entry(
    'A command with its arguments in one text was split at the blanks (a warning).',
    'write the arguments in "args"',
  ),
  TL1310: entry(
    'An argument has what only a shell would expand: `~`, `$NAME` or `%NAME%` (a warning).',
    'write ${userHome} or ${NAME}',
  ),
  TL1311: entry(
    'A key of `auth` is missing for its grant, or contradicts another.',
    'see the keys of `auth` in docs/config.md',
  ),
  TL1312: entry(
    'A value of `env` or `headers` is the placeholder of an example, or has `$NAME`, which only a shell would expand (a warning).',
    'write the value, or ${NAME} and set the variable NAME',
  ),
  TL1401: entry('The file defines no servers.', 'add "mcpServers": { "name": { "command": "…" } }'),
  TL1402: entry('The name of a server cannot be used.', 'use letters, digits, ".", "-" and single "_", 64 at most'),
  TL1403: entry('The name of a server was adapted (a warning).', 'use letters, digits, ".", "-" and single "_"'),
  TL1404: entry('Two servers have the same name, or names that clients confuse.', 'rename one of them'),
  TL1405: entry('The type of the server is not supported.', 'use stdio, http, sse, json or docker'),
  TL1406: entry('A stdio server needs a command.', 'add "command"'),
  TL1407: entry('A remote server needs a url.', 'add "url"'),
  TL1408: entry('The url of a server cannot be used.', 'write http://host/path or https://host/path'),
  TL1409: entry('The server has neither a command nor a url, so its type is unknown.', 'add "command" or "url"'),
  TL1410: entry('A header cannot be sent.', 'use a header name of letters, digits and "-", and a value of one line'),
  TL1411: entry('A certificate or key file of a server cannot be read.', 'check the path and its permissions'),
  TL1412: entry('The `ssh` key of a server is not valid.', 'write "ssh": "user@host:port"'),
  TL1413: entry(
    'The `docker` key of a server is not valid.',
    'write "docker": { "image": "name" }, or { "container": "name" }',
  ),
  TL1414: entry(
    'An entry of a client cannot be started here and is skipped (a warning).',
    'nothing has to be done; to use the server here, add it with a command or url',
  ),
  TL1501: entry(
    'The key of an agent, or the token of the metrics or of the control listener, is too short.',
    'use at least 16 characters, as from: openssl rand -hex 32',
  ),
  TL1502: entry('Two agents have the same key.', 'give each agent a key of its own'),
  TL1503: entry('An agent may use a server that does not exist.', 'name a configured server'),
  TL1601: entry(
    'Listening beyond this machine without authentication and encryption is refused.',
    'configure agents and tls (or listen.trustedProxies), or listen on 127.0.0.1',
  ),
  TL1602: entry('An address, a network block, a host or an origin is malformed.', 'correct it'),
  TL1603: entry('Two listeners have the same port.', 'give one of them another port'),
  TL1701: entry(
    'A cluster has no secret, or one that is too short.',
    'use at least 32 bytes, as from: openssl rand -hex 32',
  ),
  TL1702: entry(
    'The address of NATS, or the credentials for it, cannot be used.',
    'write nats://host:4222, and one of user and password, token, nkey, or credentials; in an address percent-encode them: % as %25, / as %2F, @ as %40',
  ),
  TL1703: entry('The caller of public subjects is not an agent.', 'name one of "agents"'),
  TL1704: entry(
    'The store of a cluster has no usable address.',
    'write postgresql://user:password@host:5432/database, with user and password percent-encoded: % as %25, / as %2F, @ as %40',
  ),
  TL1705: entry(
    'The running nodes of a cluster have another secret.',
    'give this node their cluster.secret, or another cluster.name if it is of another cluster; to change the secret, see docs/cluster.md',
  ),
} as const satisfies Record<`TL${number}`, ProblemEntry>;

export type ProblemCode = keyof typeof PROBLEMS;
