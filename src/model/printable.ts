/** C0 and C1 controls except tab and newline, and characters that reverse or break text for the reader. */
const CONTROLS = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

/** Text of another process, safe on a terminal and in a log: control characters are escaped. */
export function printable(text: string): string {
  return text.replace(/\r\n/g, '\n').replace(CONTROLS, (c) => {
    const code = c.charCodeAt(0);
    return code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u${code.toString(16)}`;
  });
}
