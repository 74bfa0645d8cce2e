/** Expansions of `plain` have no `/`, `?`, `#`; of `any` any characters; of `optional` nothing, or one of `leads` first. */
type Part =
  | { readonly kind: 'literal'; readonly text: string; readonly borders: Uint16Array }
  | { readonly kind: 'plain' }
  | { readonly kind: 'any' }
  | { readonly kind: 'optional'; readonly leads: string };

/** Longer URIs match no template: matching costs length times parts. */
const MAX_URI = 4096;
const STOPS = '/?#';

/** Limits of the templates of one server that take part in matching: their number, and their parts together and each. */
const MAX_TEMPLATES = 1_000;
const MAX_PARTS = 2_048;
const MAX_PARTS_EACH = 64;
/** Longer texts are not even parsed. */
const MAX_TEXT = 8_192;

/**
 * Templates that URIs are matched against: at most `MAX_PARTS` passes over `MAX_URI` characters for one URI. Templates
 * beyond the limits are only listed.
 */
export function matchableTemplates(texts: readonly string[]): UriTemplate[] {
  const templates: UriTemplate[] = [];
  let parts = 0;
  for (const text of texts) {
    if (templates.length === MAX_TEMPLATES) break;
    if (text.length > MAX_TEXT) continue;
    const template = new UriTemplate(text);
    if (template.size > MAX_PARTS_EACH || parts + template.size > MAX_PARTS) continue;
    parts += template.size;
    templates.push(template);
  }
  return templates;
}

/** Whether a URI can be an expansion of an RFC 6570 template, in length times parts, without backtracking. */
export class UriTemplate {
  readonly text: string;
  /** Number of literal characters: with more of them a match is more specific. */
  readonly literalLength: number;
  /** The literal at the start of every expansion; empty without one. */
  readonly prefix: string;
  readonly #parts: readonly Part[];

  constructor(text: string) {
    this.text = text;
    this.#parts = parse(text);
    this.literalLength = this.#parts.reduce((sum, part) => sum + (part.kind === 'literal' ? part.text.length : 0), 0);
    const first = this.#parts[0];
    this.prefix = first?.kind === 'literal' ? first.text : '';
  }

  /** Most passes over a URI for one match. */
  get size(): number {
    return this.#parts.length;
  }

  matches(uri: string): boolean {
    const length = uri.length;
    if (length > MAX_URI || !uri.startsWith(this.prefix)) return false;
    let at = new Uint8Array(length + 1);
    at[this.prefix.length] = 1;
    for (const part of this.prefix === '' ? this.#parts : this.#parts.slice(1)) {
      const next = new Uint8Array(length + 1);
      if (!step(part, uri, at, next)) return false;
      at = next;
    }
    return at[length] === 1;
  }
}

/** Marks in `next` where the part can end when it begins at a mark of `at`; false if nowhere. */
function step(part: Part, uri: string, at: Uint8Array, next: Uint8Array): boolean {
  if (part.kind === 'literal') return stepLiteral(part.text, part.borders, uri, at, next);
  const length = uri.length;
  let found = false;
  let open = false;
  for (let i = 0; i <= length; i++) {
    const here = at[i] === 1;
    const ends: boolean = here || open;
    if (ends) {
      next[i] = 1;
      found = true;
    }
    if (part.kind === 'optional') open ||= here && i < length && part.leads.includes(uri[i]!);
    else open = ends && !(part.kind === 'plain' && i < length && STOPS.includes(uri[i]!));
  }
  return found;
}

/** Every position of the literal in one pass (Knuth, Morris, Pratt): a repetitive literal costs no more. */
function stepLiteral(text: string, borders: Uint16Array, uri: string, at: Uint8Array, next: Uint8Array): boolean {
  let found = false;
  let matched = 0;
  for (let i = 0; i < uri.length; i++) {
    while (matched > 0 && uri[i] !== text[matched]) matched = borders[matched - 1]!;
    if (uri[i] === text[matched]) matched++;
    if (matched < text.length) continue;
    if (at[i + 1 - matched] === 1) {
      next[i + 1] = 1;
      found = true;
    }
    matched = borders[matched - 1]!;
  }
  return found;
}

function parse(text: string): Part[] {
  const parts: Part[] = [];
  let at = 0;
  while (at < text.length) {
    const open = text.indexOf('{', at);
    const close = open < 0 ? -1 : text.indexOf('}', open);
    if (close < 0) break;
    if (open > at) parts.push(literal(text.slice(at, open)));
    add(parts, expression(text.slice(open + 1, close)));
    at = close + 1;
  }
  if (at < text.length) parts.push(literal(text.slice(at)));
  return parts;
}

/** Merges expressions without a literal between them into as few parts as possible. */
function add(parts: Part[], part: Part): void {
  const last = parts.at(-1);
  const before = parts.at(-2);
  if (last === undefined || last.kind === 'literal') parts.push(part);
  else if (last.kind === 'any' || (last.kind === 'plain' && part.kind === 'plain')) return;
  else if (part.kind === 'any') {
    parts.pop();
    add(parts, part);
  } else if (last.kind === 'optional' && part.kind === 'optional') {
    if (!last.leads.includes(part.leads))
      parts[parts.length - 1] = { kind: 'optional', leads: last.leads + part.leads };
  } else if (!(last.kind === 'optional' && before?.kind === 'plain')) parts.push(part);
  // The rest is a plain part after a plain and an optional one, which match it already.
}

function literal(text: string): Part {
  const borders = new Uint16Array(text.length);
  for (let i = 1, matched = 0; i < text.length; i++) {
    while (matched > 0 && text[i] !== text[matched]) matched = borders[matched - 1]!;
    if (text[i] === text[matched]) matched++;
    borders[i] = matched;
  }
  return { kind: 'literal', text, borders };
}

function expression(body: string): Part {
  const lead = body.charAt(0);
  if (lead === '+') return { kind: 'any' };
  if (lead !== '' && '#./;?&'.includes(lead)) return { kind: 'optional', leads: lead };
  // Several variables and exploded ones expand with commas between them: still one run without stops.
  return { kind: 'plain' };
}
