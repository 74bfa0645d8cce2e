interface HiddenText {
  /** Index of the first hidden character. */
  readonly at: number;
  readonly count: number;
  readonly visible: string;
  /** ASCII text spelled in invisible tag characters; empty without any. */
  readonly spelled: string;
}

/** Characters that are invisible or change how text is shown: format controls, terminal sequences, tags. */
const HIDDEN =
  /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb]|[\u{1d173}-\u{1d17a}]|[\u{e0000}-\u{e0fff}]|\u034f|[\u17b4\u17b5]|[\u180b-\u180f]|[\ufe00-\ufe0f]/gu;

export function hiddenCharacters(text: string): HiddenText | null {
  let count = 0;
  let first = -1;
  let spelled = '';
  const visible = text.replace(HIDDEN, (character, at: number) => {
    const code = character.codePointAt(0)!;
    if (isJoining(code, text, at)) return character;
    if (first < 0) first = at;
    count++;
    if (code >= 0xe0020 && code <= 0xe007e && spelled.length < 200) spelled += String.fromCharCode(code - 0xe0000);
    return '';
  });
  return count === 0 ? null : { at: first, count, visible, spelled };
}

/** Joiners are legitimate between letters of some scripts and in emoji; never beside ASCII. */
function isJoining(code: number, text: string, at: number): boolean {
  if (code === 0x200c || code === 0x200d) return !isPlain(text, at - 1) && !isPlain(text, at + 1);
  return code >= 0xfe00 && code <= 0xfe0f && !isPlain(text, at - 1);
}

/** Whether the character is ASCII other than `#`, `*` and digits (parts of emoji), or outside the text. */
function isPlain(text: string, at: number): boolean {
  const code = text.charCodeAt(at);
  if (Number.isNaN(code)) return true;
  return code < 0x80 && code !== 0x23 && code !== 0x2a && (code < 0x30 || code > 0x39);
}

/** An excerpt that is safe to print: hidden characters and controls are written as numbers. */
export function printable(text: string, at = 0, length = 120): string {
  const start = Math.max(0, at - 40);
  const shown = text
    .slice(start, start + length)
    .replace(/[\n\t\r]/g, ' ')
    .replace(HIDDEN, (character) => `\\u{${character.codePointAt(0)!.toString(16)}}`);
  return `${start > 0 ? '…' : ''}${shown}${start + length < text.length ? '…' : ''}`;
}
