/**
 * JSON that a careless relay damages: numbers beyond doubles, lexemes that print differently, every kind of escape, key
 * order, keys that objects treat specially, deep nesting, unknown fields. No member is repeated.
 */
export const ODD_MEMBERS = [
  '"big":12345678901234567890',
  '"bigger":-9007199254740993',
  '"point":1.0',
  '"minusZero":-0',
  '"huge":1E400',
  '"tiny":5e-324',
  '"exponent":1e+2',
  '"long":0.1000000000000000055511151231257827',
  '"10":"ten","9":"nine","a":"order"',
  '"__proto__":{"polluted":true},"constructor":null',
  '"escapes":"\\u00e9\\u0041\\/\\b\\f\\ud83d\\ude00\\"\\\\"',
  '"raw":"é😀\u2028\u2029\u007f"',
  '"loneSurrogate":"\\ud800"',
  '"":"empty key"',
  '"sp ace\\u0020":[[],{},[[[{"deep":[1.50,2E1,null,true]}]]]]',
].join(',');

export const ODD = `{${ODD_MEMBERS}}`;

/** The same JSON with white space everywhere it is allowed, line breaks included. */
export function spaced(json: string): string {
  let out = '';
  let inString = false;
  for (let i = 0; i < json.length; i++) {
    const c = json[i]!;
    if (inString) {
      out += c;
      if (c === '\\') out += json[++i];
      else if (c === '"') inString = false;
    } else if (c === '"') {
      inString = true;
      out += c;
    } else if ('{}[],:'.includes(c)) out += `${c}\n\t `;
    else out += c;
  }
  return out;
}
