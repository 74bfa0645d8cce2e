/** What cannot be seen in a text. */
interface HiddenText {
  /** Of the first such character. */
  readonly at: number;
  readonly count: number;
  /** The text without them. */
  readonly visible: string;
  /** ASCII spelled in invisible tag characters; empty without any. */
  readonly spelled: string;
}

/** Characters that show nothing, or turn around what is shown: format controls, terminal sequences, tags. One pass. */
export function hiddenCharacters(text: string): HiddenText | null {
  let count = 0;
  let first = -1;
  let visible = '';
  let spelled = '';
  let from = 0;
  for (let at = 0; at < text.length; ) {
    const code = text.codePointAt(at)!;
    const size = code > 0xffff ? 2 : 1;
    if (code > 0x7e || code < 0x20) {
      if (isHidden(code, text, at, size)) {
        if (first < 0) first = at;
        count++;
        visible += text.slice(from, at);
        from = at + size;
        if (code >= 0xe0020 && code <= 0xe007e && spelled.length < 200) spelled += String.fromCharCode(code - 0xe0000);
      }
    }
    at += size;
  }
  return count === 0 ? null : { at: first, count, visible: visible + text.slice(from), spelled };
}

function isHidden(code: number, text: string, at: number, size: number): boolean {
  if (code < 0x20) return code !== 0x09 && code !== 0x0a && code !== 0x0d;
  if (code < 0xa0) return true;
  // Joiners have their place between letters of some scripts and in emoji; never beside ASCII.
  if (code === 0x200c || code === 0x200d || (code >= 0xfe00 && code <= 0xfe0f)) {
    return isPlain(text, at - 1) || (code < 0xfe00 && isPlain(text, at + size));
  }
  return (
    code === 0xad ||
    code === 0x034f ||
    code === 0x061c ||
    code === 0x115f ||
    code === 0x1160 ||
    code === 0x17b4 ||
    code === 0x17b5 ||
    (code >= 0x180b && code <= 0x180f) ||
    (code >= 0x200b && code <= 0x200f) ||
    (code >= 0x2028 && code <= 0x202e) ||
    (code >= 0x2060 && code <= 0x206f) ||
    code === 0x3164 ||
    (code >= 0xd800 && code <= 0xdfff) ||
    code === 0xfeff ||
    code === 0xffa0 ||
    (code >= 0xfff0 && code <= 0xfffb) ||
    (code >= 0x1d173 && code <= 0x1d17a) ||
    (code >= 0xe0000 && code <= 0xe0fff)
  );
}

/** ASCII but `#`, `*` and digits, which emoji are made of, or the border of the text. */
function isPlain(text: string, at: number): boolean {
  const code = text.charCodeAt(at);
  if (Number.isNaN(code)) return true;
  return code < 0x80 && code !== 0x23 && code !== 0x2a && (code < 0x30 || code > 0x39);
}

/** Part of a text that can be printed anywhere: what is hidden or could steer a terminal is written as its number. */
export function printable(text: string, at = 0, length = 120): string {
  const start = Math.max(0, at - 40);
  const cut = text.slice(start, start + length);
  let shown = '';
  for (const character of cut) {
    const code = character.codePointAt(0)!;
    const hidden = code < 0x20 || (code > 0x7e && isHidden(code, ` ${character} `, 1, character.length));
    shown += hidden ? (code === 0x0a || code === 0x09 || code === 0x0d ? ' ' : `\\u{${code.toString(16)}}`) : character;
  }
  return `${start > 0 ? '…' : ''}${shown}${start + length < text.length ? '…' : ''}`;
}
