import { isSecretHeader, namesSecret } from '../../model/secret-words.ts';
import type { Source, Span } from '../problem/source.ts';
import { isString, type Node } from './node.ts';

const ASSIGNED = /(?<![\w.-])([\w.-]{1,64})["']?[ \t]*[:=][ \t]*(["']?)([^"'\n]{1,4096})/g;
/** A flag is looked for where a word begins, and every part is bounded: linear on any text. */
const CREDENTIAL =
  /\b(?:Bearer|Basic)\s{1,256}([^\s"',}$]{6,4096})|(?<![\w-])--?[\w-]{0,64}?(?:token|secret|password|api-?key)["',=\s]{1,256}([^\s"',$]{6,4096})/gi;
const USER_INFO = /:\/\/([^/\s"'@]{1,1024})@/g;
/** Of a cluster, whose passwords are generated ones: a `/` that should be percent-encoded, and is not, ends no host there. */
const CLUSTER_USER_INFO = /\b(?:nats|tls|postgres(?:ql)?):\/\/([^\s"']{1,1024})@/g;

/** Stars out what looks like a secret in a text that could not be parsed yet, so that no code frame shows it. */
export function maskByPattern(source: Source): void {
  for (const match of source.text.matchAll(ASSIGNED)) {
    const [whole, name, , value] = match;
    if (namesSecret(name!) && !value!.includes('${') && !isVariableName(name!, value!))
      maskPart(source, match.index + whole.length, value!);
  }
  for (const match of source.text.matchAll(CREDENTIAL)) {
    maskPart(source, match.index + match[0].length, match[1] ?? match[2]!);
  }
  for (const pattern of [USER_INFO, CLUSTER_USER_INFO]) {
    for (const match of source.text.matchAll(pattern)) {
      maskPart(source, match.index + match[0].length - 1, match[1]!);
    }
  }
}

function maskPart(source: Source, end: number, value: string): void {
  source.mask({ start: end - value.length, end });
}

/** Stars out the literal secrets of a parsed document: headers, and whatever has a key that names a secret. */
export function maskSecrets(source: Source, node: Node, inHeaders = false): void {
  if (node.kind === 'array') for (const item of node.items) maskSecrets(source, item);
  if (node.kind !== 'object') return;
  for (const { key, value } of node.members) {
    if (isString(value)) {
      const secret = inHeaders ? isSecretHeader(key) : namesSecret(key);
      if (secret && !value.text.includes('${') && !isVariableName(key, value.text))
        source.mask(inner(source, value.span));
    } else maskSecrets(source, value, /^(?:http_|env_http_)?headers$/i.test(key));
  }
}

/** A key that holds the name of a variable is harmless, unless somebody put the secret itself there. */
function isVariableName(key: string, value: string): boolean {
  return /env_var$/.test(key) && /^[A-Z][A-Z0-9_]*$/.test(value);
}

/** Without the quotes. */
function inner(source: Source, { start, end }: Span): Span {
  const quoted = /["']/.test(source.text[start] ?? '');
  return quoted ? { start: start + 1, end: end - 1 } : { start, end };
}
