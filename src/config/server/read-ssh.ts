import type { ServerInput } from '../../../schema/config-input.d.ts';
import type { SshSpec } from '../../model/server.ts';
import type { WithDefaults } from '../document/shape.ts';
import type { FieldReader } from './field-reader.ts';

const PORT = 22;
/** A name, an alias of the ssh configuration, or an address; nothing that ssh could read as an option. */
const HOST = /^[A-Za-z0-9_:][A-Za-z0-9_.:%-]{0,254}$/;
const USER = /^[A-Za-z0-9_][A-Za-z0-9_.+@\\-]{0,254}$/;
/** `user@host:port`; an IPv6 address is in brackets. */
const SHORT = /^(?:(.+)@)?(?:\[([^\]]+)\]|([^@[\]:]+))(?::(\d{1,5}))?$/;

type Values = WithDefaults<NonNullable<ServerInput['ssh']>>;

/** The SSH host of a server, from `"user@host:port"` or an object; null without one, undefined after a problem (S2.22, S2.23). */
export function readSsh(fields: FieldReader, values: Values): SshSpec | null | undefined {
  const found = fields.first('ssh');
  if (found === null) return null;
  const { node } = found;
  const inner = fields.inner('ssh');
  const spec = inner === null ? shortForm(fields) : longForm(inner, values);
  if (spec === null) return undefined;
  const fault = faultOf(spec);
  if (fault === null) return spec;
  fields.error('TL1412', node, `${fields.path}.ssh: ${fault}`);
  return undefined;
}

const DEFAULTS = {
  user: null,
  port: PORT,
  identityFile: null,
  knownHostsFile: null,
  hostKeys: 'accept-new',
  controlMaster: false,
} as const;

function shortForm(fields: FieldReader): SshSpec | null {
  const text = fields.text('ssh');
  if (text === null) return null;
  const [, user = null, address, name = text, port] = SHORT.exec(text) ?? [];
  return { ...DEFAULTS, host: address ?? name, user, port: port === undefined ? PORT : Number(port) };
}

function longForm(fields: FieldReader, values: Values): SshSpec | null {
  const texts = ['host', 'user', 'identityFile', 'knownHostsFile'].map((key) => fields.optionalText(key));
  if (texts.includes(null)) return null;
  const [host = '', user, ...files] = texts as (string | undefined)[];
  const [identityFile = null, knownHostsFile = null] = files.map((path) => (path ? fields.resolvePath(path) : null));
  const { port = PORT, hostKeys, controlMaster = false } = typeof values === 'object' ? values : {};
  const keys = hostKeys === 'yes' ? hostKeys : 'accept-new';
  return { host, user: user || null, port, identityFile, knownHostsFile, hostKeys: keys, controlMaster };
}

function faultOf({ host, user, port, identityFile, knownHostsFile }: SshSpec): string | null {
  if (!HOST.test(host)) return host === '' ? 'the host is missing' : `${JSON.stringify(host)} cannot be a host`;
  if (user !== null && !USER.test(user)) return `${JSON.stringify(user)} cannot be a user`;
  if (!Number.isInteger(port) || port < 1 || port > 65_535) return `there is no port ${port}`;
  const odd = [identityFile, knownHostsFile].find((path) => path !== null && /[\u0000-\u001f]/.test(path));
  return odd === undefined ? null : `${JSON.stringify(odd)} cannot be a file`;
}
