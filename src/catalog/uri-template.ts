/** `plain` values hold no `/`, `?`, `#` once expanded; `any` ones may hold everything; `optional` begin with `lead`. */
type Part =
  | { readonly kind: 'literal'; readonly text: string }
  | { readonly kind: 'plain' }
  | { readonly kind: 'any' }
  | { readonly kind: 'optional'; readonly lead: string };

/** Longer URIs match no template: nobody expands one to that, and matching costs length times parts. */
const MAX_URI = 8192;
const STOPS = new Set(['/', '?', '#']);

/**
 * Tells whether a URI can be an expansion of an RFC 6570 template. Sets of positions are carried from part to part,
 * so the cost is length times parts whatever the texts are: no backtracking, no RegExp.
 */
export class UriTemplate {
  readonly text: string;
  /** Characters that stand fixed; the more, the more a match says. */
  readonly literalLength: number;
  readonly #parts: readonly Part[];

  constructor(text: string) {
    this.text = text;
    this.#parts = parse(text);
    this.literalLength = this.#parts.reduce((sum, part) => sum + (part.kind === 'literal' ? part.text.length : 0), 0);
  }

  matches(uri: string): boolean {
    const length = uri.length;
    if (length > MAX_URI) return false;
    const first = this.#parts[0];
    if (first?.kind === 'literal' && !uri.startsWith(first.text)) return false;
    let at = new Uint8Array(length + 1);
    at[0] = 1;
    for (const part of this.#parts) {
      const next = new Uint8Array(length + 1);
      if (!step(part, uri, at, next)) return false;
      at = next;
    }
    return at[length] === 1;
  }
}

/** Marks in `next` where the part can end when it begins at a mark of `at`; false when nowhere. */
function step(part: Part, uri: string, at: Uint8Array, next: Uint8Array): boolean {
  const length = uri.length;
  let found = false;
  let open = false;
  for (let i = 0; i <= length; i++) {
    const here = at[i] === 1;
    if (part.kind === 'literal') {
      if (here && uri.startsWith(part.text, i)) {
        next[i + part.text.length] = 1;
        found = true;
      }
      continue;
    }
    if (part.kind === 'optional') {
      if (here || open) {
        next[i] = 1;
        found = true;
      }
      open ||= here && uri[i] === part.lead;
      continue;
    }
    open ||= here;
    if (open) {
      next[i] = 1;
      found = true;
    }
    if (part.kind === 'plain' && i < length && STOPS.has(uri[i]!)) open = false;
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
    if (open > at) parts.push({ kind: 'literal', text: text.slice(at, open) });
    parts.push(expression(text.slice(open + 1, close)));
    at = close + 1;
  }
  if (at < text.length) parts.push({ kind: 'literal', text: text.slice(at) });
  return parts;
}

function expression(body: string): Part {
  switch (body[0]) {
    case '+':
      return { kind: 'any' };
    case '#':
    case '.':
    case '/':
    case ';':
    case '?':
    case '&':
      return { kind: 'optional', lead: body[0] };
    default:
      // Several variables and exploded ones expand with commas between: still one run without stops.
      return { kind: 'plain' };
  }
}
