import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Message } from '../model/message.ts';
import { isBatch, isScanFailure, type ScanFailure, type ScanMode, scanBatch, scanMessage } from './scan.ts';

function scan(json: string | Buffer, mode: ScanMode = 'strict'): Message | ScanFailure {
  return scanMessage(typeof json === 'string' ? Buffer.from(json) : json, 'stateful', mode);
}

function accepted(json: string | Buffer, mode: ScanMode = 'strict'): Message {
  const scanned = scan(json, mode);
  assert.ok(!isScanFailure(scanned), isScanFailure(scanned) ? scanned.reason : '');
  return scanned;
}

function refused(json: string | Buffer, code: ScanFailure['code'], mode: ScanMode = 'strict'): ScanFailure {
  const scanned = scan(json, mode);
  assert.ok(isScanFailure(scanned), `accepted: ${json.toString().slice(0, 120)}`);
  assert.equal(scanned.code, code, `${scanned.reason}: ${json.toString().slice(0, 120)}`);
  return scanned;
}

const REQUEST = '{"jsonrpc":"2.0","id":7,"method":"tools/list"}';
const MODES: readonly ScanMode[] = ['strict', 'relaxed'];

describe('the envelope of a message', () => {
  for (const mode of MODES) {
    test(`S2.15 check:B9 the scan separates the four kinds, in any order of members (${mode})`, () => {
      const request = accepted(
        '{"params":{"a":1},"method":"prompts/get","id":"x y","jsonrpc":"2.0","extra":[1]}',
        mode,
      );
      assert.deepEqual(
        [request.kind, request.method, request.id, request.body.toString()],
        ['request', 'prompts/get', '"x y"', '{"a":1}'],
      );
      const notification = accepted('{"method":"notifications/initialized","jsonrpc":"2.0"}', mode);
      assert.deepEqual([notification.kind, notification.id, notification.bodyStart], ['notification', '', -1]);
      const result = accepted('{"result":{"ok":true},"id":-3,"jsonrpc":"2.0"}', mode);
      assert.deepEqual(
        [result.kind, result.method, result.id, result.body.toString()],
        ['result', '', '-3', '{"ok":true}'],
      );
      const error = accepted(' { "error" : {"code":-1,"message":"m"} , "id" : 1 , "jsonrpc" : "2.0" } \n', mode);
      assert.deepEqual([error.kind, error.body.toString()], ['error', '{"code":-1,"message":"m"}']);
    });

    test(`S2.15 ids return by lexeme (${mode})`, () => {
      const ids = [
        '0',
        '-0',
        '1.0',
        '9007199254740993',
        '1'.repeat(300),
        '""',
        '"\\u00e9"',
        '"é"',
        '"\\ud800"',
        '"a\\"b"',
      ];
      for (const id of ids) {
        const message = accepted(`{"jsonrpc":"2.0","id":${id},"method":"m"}`, mode);
        assert.equal(Buffer.from(message.id, 'latin1').toString(), id);
      }
    });

    test(`S2.1 ids that cannot be echoed are refused (${mode})`, () => {
      const ids = ['null', 'true', '1.5', '1e400', '1E2', '-', '01', '1.', '{}', '[1]', `"${'x'.repeat(1 << 20)}"`];
      for (const id of ids) {
        const json = `{"jsonrpc":"2.0","id":${id},"method":"m"}`;
        const scanned = scan(json, mode);
        assert.ok(isScanFailure(scanned), id.slice(0, 20));
        assert.equal(scanned.id, '');
      }
      refused('{"jsonrpc":"2.0","id":1.5,"method":"m"}', 'INVALID_REQUEST', mode);
      refused('{"jsonrpc":"2.0","id":null,"method":"m"}', 'INVALID_REQUEST', mode);
    });

    test(`S2.1 envelope faults name the id of the request, wherever it is (${mode})`, () => {
      const faults = [
        '{"jsonrpc":"1.0","id":7,"method":"m"}',
        '{"jsonrpc":2.0,"method":"m","id":7}',
        '{"method":"m","id":7}',
        '{"jsonrpc":"2.0","id":7,"method":5}',
        '{"jsonrpc":"2.0","id":7,"method":""}',
        `{"jsonrpc":"2.0","id":7,"method":"${'m'.repeat(2000)}"}`,
        '{"jsonrpc":"2.0","id":7,"method":"m","params":null}',
        '{"jsonrpc":"2.0","id":7,"method":"m","params":"x"}',
        '{"jsonrpc":"2.0","id":7}',
        '{"jsonrpc":"2.0","id":7,"result":{},"error":{}}',
        '{"jsonrpc":"2.0","id":7,"error":"text"}',
        '{"jsonrpc":"2.0","id":7,"method":"m","result":{}}',
        '{"jsonrpc":"2.0","jsonrpc":"2.0","id":7,"method":"m"}',
        '{"jsonrpc":"2.0","id":7,"method":"m","method":"n"}',
        '{"jsonrpc":"2.0","id":7,"method":"m","m\\u0065thod":"n"}',
        '{"jsonrpc":"2.0","id":7,"result":1,"result":2}',
      ];
      for (const json of faults) assert.equal(refused(json, 'INVALID_REQUEST', mode).id, '7', json);
      assert.equal(refused('{"jsonrpc":"2.0","id":7,"id":8,"method":"m"}', 'INVALID_REQUEST', mode).id, '');
      assert.equal(
        refused('{"jsonrpc":"2.0","id":7,"method":"m","params":[1]}', 'INVALID_PARAMS', mode).id,
        '7',
        'positional params are JSON-RPC, but no params of MCP',
      );
    });

    test(`names in the envelope are read through their escapes (${mode})`, () => {
      const message = accepted('{"\\u006asonrpc":"2.\\u0030","\\u0069d":1,"method":"tools\\/l\\u0069st"}', mode);
      assert.deepEqual([message.method, message.id], ['tools/list', '1']);
    });

    test(`members of an object's prototype are names like any other (${mode})`, () => {
      const json = '{"__proto__":{"id":2},"constructor":1,"jsonrpc":"2.0","id":1,"method":"__proto__"}';
      assert.equal(accepted(json, mode).method, '__proto__');
    });

    test(`text that is not one whole document is refused (${mode})`, () => {
      const broken = ['', ' ', '{', '{}}', `${REQUEST}${REQUEST}`, `${REQUEST}\n${REQUEST}`, `${REQUEST},`, '{"a":1,}'];
      for (const json of broken) refused(json, 'PARSE_ERROR', mode);
      for (const open of ['{"a":', '{"a":[1,{"b":2]}}', '{"a":"x}', '{"a"']) refused(open, 'PARSE_ERROR', mode);
      refused(
        Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), Buffer.from(REQUEST)]),
        mode === 'strict' ? 'PARSE_ERROR' : 'INVALID_REQUEST',
        mode,
      );
    });

    test(`endless nesting is refused quickly (${mode})`, () => {
      const deep = `{"jsonrpc":"2.0","id":1,"method":"m","params":${'{"a":'.repeat(200_000)}1${'}'.repeat(200_000)}}`;
      refused(deep, 'PARSE_ERROR', mode);
      refused(`{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":${'['.repeat(200_000)}`, 'PARSE_ERROR', mode);
    });
  }
});

describe('bytes from clients', () => {
  test('S2.1 check:B9 a value that JSON does not allow is a parse error', () => {
    const values = [
      "'x'",
      'undefined',
      'NaN',
      'Infinity',
      '-Infinity',
      '+1',
      '01',
      '-01',
      '.5',
      '5.',
      '1e',
      '1e+',
      '0x10',
      '1_000',
      '--1',
      'True',
      'nul',
      'nulll',
      'tru',
      '"\t"',
      '"\n"',
      '"\u0000"',
      '"\\x41"',
      '"\\u12g4"',
      '"\\u12"',
      '"\\',
      '"a',
      '[1,]',
      '[,1]',
      '[1 2]',
      '{"a" 1}',
      '{a:1}',
      '{"a":1,,"b":2}',
      '{,}',
      '/*c*/1',
      '1//c\n',
      '\u00a01',
      '\u20281',
      '1\f',
    ];
    for (const value of values) refused(`{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":${value}}}`, 'PARSE_ERROR');
  });

  test('check:B12 unusual but valid JSON passes', () => {
    const values = [
      '12345678901234567890',
      '1.0',
      '-0',
      '1E400',
      '1e-999',
      '0e0',
      '-1.25E+3',
      '"\\ud800"',
      '"\\u0000"',
      '"\u2028\u007f"',
      '"😀\\/\\b\\f\\n\\r\\t\\\\"',
      '[ ]',
      '{ }',
      '[[],{}]',
      'true',
      'false',
      'null',
      '""',
      '{"":{"":""}}',
      '{"a":1,"a":2}',
    ];
    for (const value of values) {
      const json = `{"jsonrpc":"2.0","id":1,"method":"m","params":{"a": ${value} }}`;
      assert.equal(accepted(json).body.toString(), `{"a": ${value} }`);
    }
  });

  test('broken UTF-8 is a parse error, in a name, a string or between tokens', () => {
    for (const bad of [[0xff], [0xc0, 0xaf], [0xed, 0xa0, 0x80], [0xe2, 0x82], [0xf5, 0x80, 0x80, 0x80]]) {
      const json = Buffer.concat([
        Buffer.from('{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"'),
        Buffer.from(bad),
        Buffer.from('"}}'),
      ]);
      refused(json, 'PARSE_ERROR');
    }
    refused(Buffer.from(REQUEST, 'utf16le'), 'PARSE_ERROR');
  });

  test('scalars and arrays are JSON, but not requests', () => {
    for (const json of ['1', '"x"', 'null', 'true', '[]', `[${REQUEST}]`]) refused(json, 'INVALID_REQUEST');
    for (const json of ['nope', '[1', '"x', '[1]x']) refused(json, 'PARSE_ERROR');
  });

  test('a repeated parameter is refused: server and gateway would read different ones', () => {
    const twice = [
      '{"name":"safe","arguments":{},"name":"other"}',
      '{"name":"safe", "n\\u0061me" :"other"}',
      '{"name" :"safe","name":"other"}',
      '{"_meta":{"progressToken":1,"progressToken":2}}',
      '{"\\u005fmeta":{"k":1,"k":2}}',
      '{"_meta":{},"_meta":{}}',
    ];
    for (const params of twice) {
      const failure = refused(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}}`, 'INVALID_REQUEST');
      assert.equal(failure.id, '1');
    }
    // Names of equal signature that are not equal, and many of them.
    accepted('{"jsonrpc":"2.0","id":1,"method":"m","params":{"aa":1,"ab":2,"ac":3,"_meta":{"xa":1,"xb":2}}}');
    const many = Array.from({ length: 20_000 }, (_, i) => `"k${i}":${i}`).join(',');
    accepted(`{"jsonrpc":"2.0","id":1,"method":"m","params":{${many}}}`);
    refused(`{"jsonrpc":"2.0","id":1,"method":"m","params":{${many},"k77":1}}`, 'INVALID_REQUEST');
  });

  test('S2.1 a tools/call whose name is no string or whose arguments are no object is refused as bad params', () => {
    const call = (params: string) => `{"jsonrpc":"2.0","params":${params},"id":"c","method":"tools/call"}`;
    for (const params of ['{"name":5}', '{"name":null}', '{"arguments":{},"n\\u0061me":[]}', '{"name":{}}']) {
      const { id, reason } = refused(call(params), 'INVALID_PARAMS');
      assert.deepEqual([id, reason], ['"c"', 'params.name must be a string']);
    }
    for (const value of ['[]', '[{"a":1}]', '"{}"', '1', '-1', 'true', 'false']) {
      const { id, reason } = refused(call(`{"name":"x","arguments": ${value}}`), 'INVALID_PARAMS');
      assert.deepEqual([id, reason], ['"c"', 'params.arguments must be an object']);
    }
    for (const params of ['{"name":"x"}', '{"arguments":{},"n\\u0061me":"x"}', '{"name":"x","arguments":null}']) {
      accepted(call(params));
    }
  });

  test('a decisive member in another case is refused, in any spelling', () => {
    const spellings = (name: string): string[] => [
      name.toUpperCase(),
      name[0]!.toUpperCase() + name.slice(1),
      ...(name[0] === '_' ? [] : [`\\u00${name.toUpperCase().charCodeAt(0).toString(16)}${name.slice(1)}`]),
      ...(name.includes('s') ? [name.replace('s', 'ſ'), name.replace('s', '\\u017f')] : []),
      ...(name.includes('k') ? [name.replace('k', '\u212a'), name.replace('k', '\\u212A')] : []),
      ...(name.toLowerCase() === name ? [] : [name.toLowerCase()]),
    ];
    const request = (more: string, params = '{"name":"x"}') =>
      `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}${more}}`;
    for (const name of ['id', 'method', 'params', 'jsonrpc', 'result', 'error']) {
      for (const key of spellings(name).filter((each) => each !== name)) {
        const { reason, id } = refused(request(`,"${key}":{}`), 'INVALID_REQUEST');
        assert.match(reason, new RegExp(`written in another case than "${name}"`));
        assert.equal(id, '1');
        refused(`{"jsonrpc":"2.0","id":1,"result":{},"${key}":9}`, 'INVALID_REQUEST', 'relaxed');
      }
    }
    const names = [
      'name',
      'arguments',
      'uri',
      'cursor',
      'taskId',
      'task',
      'progressToken',
      'requestState',
      '_meta',
      'ref',
    ];
    for (const name of names) {
      for (const key of spellings(name).filter((each) => each !== name)) {
        const params = `{"name":"x","${key}":{}}`;
        const { reason } = refused(request('', params), 'INVALID_REQUEST');
        assert.match(reason, new RegExp(`written in another case than "${name}"`));
        refused(`{"jsonrpc":"2.0","method":"notifications/progress","params":${params}}`, 'INVALID_REQUEST', 'relaxed');
      }
    }
    for (const params of [
      '{"name":"x","_meta":{"ProgressToken":1}}',
      '{"name":"x","_meta":{"progresſToken":1}}',
      '{"name":"x","_meta":{"IO.modelcontextprotocol/protocolVersion":"2026-07-28"}}',
      '{"name":"x","_meta":{"io.modelcontextprotocol/related-task":{"TaskID":"t"}}}',
      '{"name":"x","ref":{"type":"ref/prompt","name":"a","Name":"b"}}',
    ]) {
      refused(request('', params), 'INVALID_REQUEST');
    }
    // Other names are accepted, and every name inside a tool's arguments.
    for (const params of [
      '{"name":"x","Names":1,"nam":2,"NAMEX":3,"ñame":4,"\\u006e":5,"ſ":6}',
      '{"name":"x","arguments":{"Name":1,"name":2,"_META":{"progresstoken":1}}}',
      '{"name":"x","_meta":{"Name":1,"com.example/Cursor":2}}',
    ]) {
      accepted(request(',"Extra":1,"iD2":2', params));
    }
  });

  test('nesting passes up to the limit', () => {
    const nested = (depth: number) =>
      `{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":${'['.repeat(depth)}${']'.repeat(depth)}}}`;
    accepted(nested(510));
    refused(nested(511), 'PARSE_ERROR');
  });

  test('S2.1 requests and answers of clients need an id', () => {
    for (const method of ['tools/call', 'initialize', 'subscriptions/listen']) {
      const { id, reason } = refused(`{"jsonrpc":"2.0","method":"${method}","params":{"name":"x"}}`, 'INVALID_REQUEST');
      assert.deepEqual([id, reason], ['', `"id" is missing: ${method} is a request`]);
    }
    assert.equal(accepted('{"jsonrpc":"2.0","method":"acme/told"}').kind, 'notification');
    refused('{"jsonrpc":"2.0","result":{}}', 'INVALID_REQUEST');
    refused('{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}', 'INVALID_REQUEST');
  });
});

describe('bytes from servers', () => {
  test('an error may come without an id, or with null', () => {
    for (const json of [
      '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}',
      '{"jsonrpc":"2.0","error":{"code":-32700,"message":"x"}}',
    ]) {
      const message = accepted(json, 'relaxed');
      assert.deepEqual([message.kind, message.id], ['error', '']);
    }
    refused('{"jsonrpc":"2.0","id":null,"result":{}}', 'INVALID_REQUEST', 'relaxed');
  });

  test('strings are skipped, whatever they contain', () => {
    const tricky = [
      '}'.repeat(500),
      '\\"}]'.repeat(100),
      '\\\\',
      `${'\\\\'.repeat(100)}`,
      `${'x'.repeat(100)}\\"`,
      'a'.repeat(47),
    ];
    for (let pad = 0; pad < 100; pad++) tricky.push(`${'p'.repeat(pad)}\\\\\\"{`);
    for (const text of tricky) {
      const json = `{"result":{"t":"${text}","u":["${text}"]},"jsonrpc":"2.0","id":5}`;
      const message = accepted(json, 'relaxed');
      assert.equal(message.id, '5');
      assert.equal(message.body.toString(), `{"t":"${text}","u":["${text}"]}`);
    }
  });
});

describe('a batch', () => {
  test('is split into the bytes of its elements', () => {
    const parts = scanBatch(Buffer.from(` [ ${REQUEST} , {"x":"]"} , 1 ]\n`));
    assert.ok(!isScanFailure(parts));
    assert.deepEqual(parts.map(String), [REQUEST, '{"x":"]"}', '1']);
    assert.equal(isBatch(Buffer.from(' [1]')), true);
    assert.equal(isBatch(Buffer.from(REQUEST)), false);
  });

  test('is refused when empty, broken, or too long', () => {
    const code = (json: string): string => {
      const scanned = scanBatch(Buffer.from(json));
      return isScanFailure(scanned) ? scanned.code : 'accepted';
    };
    assert.equal(code('[]'), 'INVALID_REQUEST');
    assert.equal(code('{}'), 'INVALID_REQUEST');
    assert.equal(code(`[${REQUEST}`), 'PARSE_ERROR');
    assert.equal(code(`[${REQUEST},]`), 'PARSE_ERROR');
    assert.equal(code(`[${new Array(20_000).fill(REQUEST).join(',')}]`), 'INVALID_REQUEST');
    assert.equal(code(`[${new Array(100).fill(REQUEST).join(',')}]`), 'accepted');
  });
});
