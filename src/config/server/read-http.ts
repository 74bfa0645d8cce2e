import { resolve } from 'node:path';
import { type AuthSpec, GRANTS, PLAIN_AUTH } from '../../model/credentials.ts';
import { headerComplaint } from '../../model/request-headers.ts';
import { Secret } from '../../model/secret.ts';
import { type HttpSpec, type TlsSpec, takesTokens } from '../../model/server.ts';
import { isString, objectAt } from '../document/node.ts';
import { isReadFailure, readPem } from '../document/read-source.ts';
import { type FieldReader, isWord } from './field-reader.ts';
import { readExec } from './read-exec.ts';
import { warnOfPlaceholder } from './warn-of-placeholder.ts';

export const URL_KEYS = ['url', 'httpUrl', 'serverUrl', 'uri'] as const;
const LOCAL_KEYS = [
  'args',
  'env',
  'environment',
  'envs',
  'envFile',
  'env_vars',
  'env_keys',
  'cwd',
  'inheritEnv',
  'ssh',
];
/** Credentials for the gateway, and headers of a single connection (RFC 9110 §7.6.1). */
const NOT_FORWARDED =
  /^(?:authorization|cookie2?|set-cookie2?|proxy-.*|trailer|forwarded|x-forwarded-.*|x-real-ip|via|origin|dpop)$/i;
const NONE: ReadonlyMap<string, string> = new Map();

/** The remote server of a definition; null after a problem. */
export function readHttp(fields: FieldReader, type: HttpSpec['type'], sseFallback: boolean): HttpSpec | null {
  fields.warnUseless(LOCAL_KEYS, 'on a server behind a url');
  const url = readUrl(fields);
  const headers = readHeaders(fields);
  const tls = readTls(fields);
  const auth = readAuth(fields);
  const forwardHeaders = headers === null ? null : readForwarded(fields, headers);
  if (url === null || headers === null || tls === null || auth === null || forwardHeaders === null) return null;
  const { spec } = auth;
  if (spec?.exec != null && Object.keys(headers).some((name) => name.toLowerCase() === 'authorization')) {
    fields.error('TL1311', null, `${fields.path} has an Authorization header, and "exec" to get one`);
    return null;
  }
  const transport = { type, ...url, headers, tls };
  const named = fields.first('auth', 'oauth');
  if (spec !== null && named !== null && !takesTokens({ transport })) {
    const words = `${fields.path}.${named.key} gets no credential: the Authorization header is sent in its place`;
    fields.warn('TL1307', named.node, words, 'remove one of the two');
  }
  return {
    ...transport,
    ...(sseFallback ? { sseFallback } : {}),
    ...(spec === null ? {} : { auth: spec }),
    ...(Object.keys(forwardHeaders).length === 0 ? {} : { forwardHeaders }),
  };
}

function readUrl(fields: FieldReader): Pick<HttpSpec, 'url' | 'writtenUrl'> | null {
  const found = fields.first(...URL_KEYS);
  const text = found === null ? null : fields.text(found.key);
  if (found === null || text === null) return null;
  // It is checked with its values when the definition is added.
  if (fields.context.expander.keepsReferences && text.includes('${')) return { url: text };
  const checked = checkServerUrl(text);
  if ('complaint' in checked) {
    fields.error('TL1408', found.node, `${fields.path}.${found.key} ${checked.complaint}`, checked.fix);
    return null;
  }
  const [written = ''] = fields.writtenWords(found.key);
  return { url: checked.url, ...(written === text ? {} : { writtenUrl: written }) };
}

function readHeaders(fields: FieldReader): Record<string, Secret> | null {
  const headers: Record<string, Secret> = Object.create(null);
  const seen = new Map<string, string>();
  let good = true;
  const set = (name: string, value: string | null, at: Parameters<FieldReader['error']>[1], path: string): void => {
    const complaint = value === null ? null : headerComplaint(name, value, seen);
    if (complaint !== null) fields.error('TL1410', at, `${path} ${complaint}`);
    if (value === null || complaint !== null) {
      good = false;
      return;
    }
    seen.set(name.toLowerCase(), name);
    headers[name] = new Secret(value.trim());
  };
  const declared = fields.first('headers', 'http_headers');
  for (const { key, value } of declared?.node.kind === 'object' ? declared.node.members : []) {
    const path = `${declared!.key}.${key}`;
    if (!isWord(value)) continue;
    const text = fields.word(value, path);
    warnOfPlaceholder(fields, value, `${fields.path}.${path}`, text);
    set(key, text, value, `${fields.path}.${path}`);
  }
  for (const { key, value } of objectAt(fields.node, 'env_http_headers')?.members ?? []) {
    const path = `${fields.path}.env_http_headers.${key}`;
    if (isString(value)) set(key, fields.context.expander.variable(value, path), value, path);
  }
  const bearer = fields.first('bearer_token_env_var')?.node;
  if (isString(bearer)) {
    const path = `${fields.path}.bearer_token_env_var`;
    const token = fields.context.expander.variable(bearer, path);
    set('Authorization', token === null ? null : `Bearer ${token}`, bearer, path);
  }
  return good ? headers : null;
}

/** null after a problem. */
function readForwarded(
  fields: FieldReader,
  headers: Readonly<Record<string, Secret>>,
): Readonly<Record<string, string>> | null {
  const forwarded: Record<string, string> = Object.create(null);
  const seen = new Map(Object.keys(headers).map((name) => [name.toLowerCase(), name]));
  let good = true;
  for (const { key, value } of objectAt(fields.node, 'forwardHeaders')?.members ?? []) {
    if (!isString(value)) continue;
    const [from, to] = [key.toLowerCase(), String(value.value)];
    const complaint = forwardComplaint(from, to, forwarded) ?? headerComplaint(to, '', seen);
    const fix = 'leave it out, or write "name in the request": "name at the server"';
    if (complaint !== null) fields.error('TL1410', value, `${fields.path}.forwardHeaders.${key} ${complaint}`, fix);
    good &&= complaint === null;
    seen.set(to.toLowerCase(), to);
    forwarded[from] = to;
  }
  return good ? forwarded : null;
}

function forwardComplaint(from: string, to: string, forwarded: Readonly<Record<string, string>>): string | null {
  const kept = [from, to].find((name) => NOT_FORWARDED.test(name));
  if (kept !== undefined) return `would forward ${kept}, which is for the gateway alone; see "auth"`;
  if (from in forwarded) return 'is there twice';
  return headerComplaint(from, '', NONE);
}

/** Keys of `auth`, those of Trunkline and of clients, by meaning. */
const AUTH_KEYS = {
  clientId: ['clientId', 'client_id', 'CLIENT_ID'],
  clientSecret: ['clientSecret', 'client_secret', 'CLIENT_SECRET'],
} as const;

/** null after a problem; `spec` is null if all values are defaults. */
function readAuth(fields: FieldReader): { readonly spec: AuthSpec | null } | null {
  const maps = [fields.inner('auth'), fields.inner('oauth')].filter((map) => map !== null);
  const codexScopes = fields.names('scopes');
  if (maps.length === 0 && codexScopes === null) return { spec: null };
  let good = true;
  const text = (...keys: readonly string[]): string | null => {
    for (const map of maps) {
      const found = map.first(...keys);
      if (found === null || !isString(found.node)) continue;
      const value = map.text(found.key);
      if (value === null) good = false;
      return value;
    }
    return null;
  };
  const secret = (...keys: readonly string[]): Secret | null => {
    const value = text(...keys);
    return value === null ? null : new Secret(value);
  };
  const listed = maps.map((map) => map.names('scopes', 'scope')).find((names) => names !== null) ?? codexScopes;
  const scopes = listed ?? text('scopes', 'scope')?.split(/[ ,]+/).filter(Boolean) ?? null;
  const [native] = maps;
  const dpop = native?.first('dpop')?.node;
  const file = text('subjectTokenFile');
  const exec = readExec(native);
  if (exec === undefined) good = false;
  const spec: AuthSpec = {
    grant: (text('grant') as AuthSpec['grant'] | null) ?? 'authorization_code',
    clientId: text(...AUTH_KEYS.clientId),
    clientSecret: secret(...AUTH_KEYS.clientSecret),
    privateKey: secret('privateKey'),
    scopes,
    issuer: text('issuer'),
    subjectToken: secret('subjectToken'),
    subjectTokenFile: file === null ? null : fields.resolvePath(file),
    idpTokenEndpoint: text('idpTokenEndpoint'),
    idpClientId: text('idpClientId'),
    idpClientSecret: secret('idpClientSecret'),
    per: (text('per') as AuthSpec['per'] | null) ?? 'gateway',
    dpop: dpop?.kind === 'boolean' && dpop.value === true,
    exec: exec ?? null,
  };
  const known = (GRANTS as readonly string[]).includes(spec.grant);
  const complaint = good && known ? authComplaint(spec) : null;
  if (complaint !== null) fields.error('TL1311', native?.node ?? null, `${native?.path ?? fields.path} ${complaint}`);
  if (!good || complaint !== null) return null;
  const said = Object.values({
    ...spec,
    grant: spec.grant === PLAIN_AUTH.grant ? null : spec.grant,
    per: spec.per === PLAIN_AUTH.per ? null : spec.per,
    dpop: spec.dpop || null,
  });
  return { spec: said.some((value) => value !== null) ? spec : null };
}

function authComplaint(spec: AuthSpec): string | null {
  const { grant, clientId, clientSecret, privateKey, subjectToken, subjectTokenFile, exec, dpop } = spec;
  const others = [clientId, clientSecret, privateKey, subjectToken, subjectTokenFile, spec.scopes, spec.issuer];
  if (
    exec !== null &&
    (grant !== 'authorization_code' || spec.per !== 'gateway' || dpop || others.some((value) => value !== null))
  ) {
    return 'has "exec", and other keys beside it that would get another credential';
  }
  for (const key of ['issuer', 'idpTokenEndpoint'] as const) {
    if (spec[key] !== null && !/^https?:$/.test(URL.parse(spec[key])?.protocol ?? ''))
      return `has the key "${key}" with what is not an address: write https://… in full`;
  }
  if (grant !== 'authorization_code' && clientId === null) return `needs the key "clientId" for the grant ${grant}`;
  if (spec.per === 'principal' && grant !== 'authorization_code') {
    return `has the grant ${grant}, which has no user: leave out "per"`;
  }
  if (grant === 'client_credentials' && clientSecret === null && privateKey === null) {
    return 'needs "clientSecret" or "privateKey" for the grant client_credentials';
  }
  const exchanges = grant !== 'authorization_code' && grant !== 'client_credentials';
  if (exchanges && subjectToken === null && subjectTokenFile === null) {
    return `needs "subjectToken" or "subjectTokenFile" for the grant ${grant}`;
  }
  if (subjectToken !== null && subjectTokenFile !== null) return 'has both "subjectToken" and "subjectTokenFile"';
  if (grant === 'enterprise_managed' && (spec.idpTokenEndpoint === null || spec.idpClientId === null)) {
    return 'needs "idpTokenEndpoint" and "idpClientId" for the grant enterprise_managed';
  }
  return clientSecret !== null && privateKey !== null ? 'has both "clientSecret" and "privateKey"' : null;
}

function readTls(fields: FieldReader): TlsSpec | null {
  const { expander, fileFolder, files } = fields.context;
  const node = objectAt(fields.node, 'tls');
  if (node === undefined) return {};
  const texts: Record<string, string> = {};
  for (const { key, value } of node.members) {
    if (!isString(value)) continue;
    const path = expander.expand(value, `${fields.path}.tls.${key}`);
    if (path === null) return null;
    const file = resolve(fileFolder, expander.fromHome(path));
    const bytes = readPem(file, files);
    if (isReadFailure(bytes)) {
      fields.error('TL1411', value, `${fields.path}.tls.${key}: ${file}: ${bytes.message}`);
      return null;
    }
    texts[key] = bytes.toString('utf8');
  }
  const { ca, cert, key } = texts;
  if ((cert === undefined) !== (key === undefined)) {
    fields.error('TL1304', node, `${fields.path}.tls: cert and key need each other`);
    return null;
  }
  return {
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key: new Secret(key) }),
  };
}

type CheckedUrl = { readonly url: string } | { readonly complaint: string; readonly fix: string };

/** A server's URL in WHATWG form, or why it is invalid. The complaint never contains the URL. */
function checkServerUrl(text: string): CheckedUrl {
  const fix = 'write http://host/path or https://host/path';
  if (/[\s\u0000-\u001f\u007f]/.test(text)) return { complaint: 'holds blanks or control characters', fix };
  const scheme = /^([A-Za-z][A-Za-z0-9+.-]*):/.exec(text)?.[1];
  if (scheme === undefined || !URL.canParse(text)) {
    const lacking = URL.canParse(`http://${text}`);
    if (scheme === undefined && lacking)
      return { complaint: 'lacks its scheme', fix: 'write http:// or https:// before it' };
    if (/^https?:/i.test(text) || scheme === undefined) return { complaint: 'is not a URL', fix };
  }
  // `localhost:8080/mcp` parses as a URL of the scheme `localhost`.
  if (!/^https?$/i.test(scheme ?? '')) {
    const port = /^[\w.-]+:\d+(?:\/|$)/.test(text);
    if (port) return { complaint: 'lacks its scheme', fix: 'write http:// or https:// before it' };
    return { complaint: `has the scheme ${JSON.stringify(scheme)}; only http and https are possible`, fix };
  }
  if (!/^https?:\/\//i.test(text)) return { complaint: 'lacks the // after its scheme', fix };
  // WHATWG skips further slashes and would take the first part of the path as the host.
  if (/^https?:\/\/[/\\]/i.test(text)) return { complaint: 'lacks its host', fix };
  const url = new URL(text);
  if (url.username !== '' || url.password !== '') {
    const instead = 'send them as a header: "headers": { "Authorization": "Basic ${…}" }';
    return { complaint: 'holds a user name or password', fix: instead };
  }
  if (url.port === '0') return { complaint: 'has port 0', fix: 'name the port the server listens on' };
  if (url.hash !== '') return { complaint: 'has a fragment (#…), which is never sent', fix: 'remove it' };
  return { url: url.href };
}
