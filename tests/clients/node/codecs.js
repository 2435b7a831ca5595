// The codecs that kafkajs leaves to plug-ins. Snappy: written raw, read raw or in xerial's framing (as Java writes it).
import kafkajs from 'kafkajs';
import lz4 from 'lz4-napi';
import snappy from 'snappy';
import { Zstd } from '@hpcc-js/wasm-zstd';

const { CompressionCodecs, CompressionTypes } = kafkajs;
const XERIAL_MAGIC = Buffer.from([0x82, 0x53, 0x4e, 0x41, 0x50, 0x50, 0x59, 0x00]);
const XERIAL_HEADER_BYTES = 16;

async function unsnappy(buffer) {
  if (!buffer.subarray(0, 8).equals(XERIAL_MAGIC)) {
    return snappy.uncompress(buffer);
  }
  const parts = [];
  for (let at = XERIAL_HEADER_BYTES; at < buffer.length; ) {
    const length = buffer.readInt32BE(at);
    parts.push(await snappy.uncompress(buffer.subarray(at + 4, at + 4 + length)));
    at += 4 + length;
  }
  return Buffer.concat(parts);
}

export async function registerCodecs() {
  const zstd = await Zstd.load();
  CompressionCodecs[CompressionTypes.Snappy] = () => ({
    compress: (encoder) => snappy.compress(encoder.buffer),
    decompress: unsnappy,
  });
  CompressionCodecs[CompressionTypes.LZ4] = () => ({
    compress: (encoder) => lz4.compressFrame(encoder.buffer),
    decompress: (buffer) => lz4.decompressFrame(buffer),
  });
  CompressionCodecs[CompressionTypes.ZSTD] = () => ({
    compress: async (encoder) => Buffer.from(zstd.compress(encoder.buffer)),
    decompress: async (buffer) => Buffer.from(zstd.decompress(buffer)),
  });
}
